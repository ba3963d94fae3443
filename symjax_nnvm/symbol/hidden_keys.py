"""Hidden keys: attributes that MXNet stores as `__key__` and lets users read and write as `key`."""

from __future__ import annotations

from symjax_nnvm.errors import SymbolValueError

HIDDEN_KEYS = ("ctx_group", "lr_mult", "wd_mult", "force_mirroring", "mirror_stage")


def hidden_key(key: str, *, exact: bool = False) -> str:
    """Return the stored spelling of a user attribute: MXNet's hidden keys become `__key__`.

    On operators a key that starts with a hidden key is hidden too, and one that ends with one (`weight_lr_mult`) is
    refused: the attribute belongs on the variable. Raises SymbolValueError.
    """
    if key in HIDDEN_KEYS:
        return f"__{key}__"
    for hidden in HIDDEN_KEYS:
        if key.startswith(hidden) and not exact:
            return f"__{key}__"
        if key.endswith(f"_{hidden}"):
            argument = key[: -len(hidden) - 1]
            raise SymbolValueError(
                f"setting variable attributes with {key} is deprecated. please instead use\n"
                f"w = Variable({hidden}=...)\nsym = YourSymbolName({argument}=w)"
            )
    return key


def with_hidden(attrs: dict[str, str]) -> dict[str, str]:
    """Return the attributes, with every hidden one also under its plain key."""
    return attrs | {key: attrs[f"__{key}__"] for key in HIDDEN_KEYS if f"__{key}__" in attrs}
