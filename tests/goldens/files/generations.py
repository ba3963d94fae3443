"""Symbol files as each MXNet generation wrote them, one for every upgrade rule, after MXNet's legacy_json_util.cc.

`make.py` writes each document and what MXNet 1.9.1 makes of it; the tests hold ours against that. Only data: no import.
"""

from typing import Any

Node = dict[str, Any]


def old(op: str, name: str, *inputs: int, attr: dict[str, str] | None = None, **param: str) -> Node:
    """A node of 0.7 and 0.8: parameters, user attributes, and entries of two numbers."""
    node = {"op": op, "param": param, "name": name, "inputs": [[i, 0] for i in inputs], "backward_source_id": -1}
    return node | ({"attr": attr} if attr else {})


def new(op: str, name: str, *inputs: int, key: str = "attrs", **attrs: str) -> Node:
    """A node since 0.9: one map, `attr` until 0.12 and `attrs` from 1.0."""
    return {"op": op, "name": name, **({key: attrs} if attrs else {}), "inputs": [[i, 0, 0] for i in inputs]}


def graph(*nodes: Node, version: int | None = None, heads: list[list[int]] | None = None, **attrs: Any) -> Node:
    """A document whose head is its last node."""
    document: Node = {
        "nodes": list(nodes),
        "arg_nodes": [i for i, node in enumerate(nodes) if node["op"] == "null"],
        "heads": heads or [[len(nodes) - 1, 0]],
    }
    if version is not None:
        attrs["mxnet_version"] = ["int", version]
    return document | ({"attrs": attrs} if attrs else {})


_FC = {"num_hidden": "4"}
_BN = [new("null", f"bn_{name}") for name in ("gamma", "beta", "moving_mean", "moving_var")]

GENERATIONS: dict[str, Node] = {
    "0.7": graph(
        old("null", "data"),
        old("null", "conv_weight"),
        old("null", "conv_bias"),
        old(
            "Convolution",
            "conv",
            0,
            1,
            2,
            cudnn_tune="off",
            dilate="(1,1)",
            kernel="(3,3)",
            no_bias="False",
            num_filter="4",
            num_group="1",
            pad="(1,1)",
            stride="(1,1)",
            workspace="512",
        ),
        old("null", "bn_gamma"),
        old("null", "bn_beta"),
        old("BatchNorm", "bn", 3, 4, 5, eps="0.001", fix_gamma="True", momentum="0.9", use_global_stats="False"),
        old("Activation", "relu", 6, act_type="relu"),
        old("Flatten", "flat", 7),
        old("null", "fc_weight"),
        old("null", "fc_bias"),
        old("FullyConnected", "fc", 8, 9, 10, no_bias="False", num_hidden="10"),
        old("null", "softmax_label"),
        old("Softmax", "softmax", 11, 12, grad_scale="1", multi_output="False"),
    ),
    "0.8": graph(
        old("null", "data", attr={"ctx_group": "stage1", "lr_mult": "0.2"}),
        old("null", "fc1_weight", attr={"ctx_group": "stage1", "weight_lr_mult": "1.2", "wd_mult": "0.3"}),
        old("null", "fc1_bias", attr={"ctx_group": "stage1"}),
        old("FullyConnected", "fc1", 0, 1, 2, attr={"ctx_group": "stage1", "weight_lr_mult": "1.2"}, **_FC),
        old("_PlusScalar", "plus", 3, scalar="1"),
        old("null", "label"),
        old("LinearRegressionOutput", "out", 4, 5, grad_scale="1"),
    ),
    "0.9": graph(
        new("null", "data"), *_BN, new("BatchNorm", "bn", 0, 1, 2, 3, 4, key="attr", eps="0.001"), version=903
    ),
    "0.10": graph(
        new("null", "data", key="attr", __shape__="(2, 0)"),
        new("null", "fc_weight", key="attr", num_hidden="4"),
        new("FullyConnected", "fc", 0, 1, key="attr", no_bias="True", **_FC),
        version=1000,
    ),
    "0.12": graph(
        new("null", "data", key="attr", lr_mult="2"), new("elemwise_add", "sum", 0, 0, key="attr"), version=1200
    ),
    "1.0": graph(
        new("null", "data", __dtype__="0", __storage_type__="0"),
        new("null", "w", __init__='["zero", {}]', __lr_mult__="1.0"),
        new("FullyConnected", "fc", 0, 1, no_bias="True", **_FC),
        version=10000,
    ),
    "1.3 subgraphs": graph(
        new("null", "x"),
        new("null", "s"),
        new(
            "_foreach",
            "loop",
            0,
            1,
            num_args="3",
            num_outputs="2",
            num_out_data="1",
            in_data_locs="[0]",
            in_state_locs="[1]",
            remain_locs="[]",
        )
        | {
            "subgraphs": [
                graph(
                    new("null", "x0"),
                    new("null", "s0"),
                    new("elemwise_add", "add", 0, 1, __subgraph_name__="loop"),
                    heads=[[2, 0, 0], [2, 0, 0]],
                )
            ]
        },
        version=10300,
        heads=[[2, 0], [2, 1]],
    ),
    "1.6 numpy shapes": graph(
        new("null", "data", __shape__="(2, -1)"), new("relu", "r", 0), version=10600, is_np_shape=["int", 1]
    ),
}
"""Version → a file of it."""

RULES: dict[str, Node] = {
    "rule 0: param does not overwrite attr": graph(
        old("null", "x"), old("FullyConnected", "fc", 0, attr={"num_hidden": "7"}, num_hidden="4", no_bias="True")
    ),
    "rule 0: of attr and attrs the later counts": graph(
        {"op": "null", "name": "x", "attr": {"a": "1"}, "attrs": {"b": "2"}, "inputs": []},
        {"op": "relu", "name": "r", "attrs": {"b": "2"}, "attr": {"a": "1"}, "inputs": [[0, 0]]},
        version=10000,
    ),
    "rule 1: hidden keys of variables and operators": graph(
        new("null", "x", ctx_group="a", lr_mult="1", wd_mult="2", force_mirroring="True", mirror_stage="3"),
        new("FullyConnected", "fc", 0, ctx_group="b", wd_mult="4", force_mirroring="True", **_FC, no_bias="True"),
        version=800,
    ),
    "rule 1: keys of inputs move to their variables": graph(
        new("null", "x"),
        new("null", "w", __lr_mult__="9"),
        new("null", "b"),
        new("FullyConnected", "fc", 0, 1, 2, **_FC, weight_lr_mult="0.5", bias_wd_mult="0", data_ctx_group="c"),
        version=900,
    ),
    "rule 1: keys of no input are refused": graph(
        new("null", "x"), new("FullyConnected", "fc", 0, **_FC, bogus_lr_mult="1"), version=800
    ),
    "rule 1: other keys stay": graph(
        new("null", "x", x_lr_mult="1", lr_mult_foo="2", __lr_mult__="3", mood="angry"),
        new("relu", "r", 0, lr_mult_foo="4"),
        version=900,
    ),
    "rule 1: not in files of today": graph(
        new("null", "x", lr_mult="1"), new("relu", "r", 0, ctx_group="a"), version=10901
    ),
    "rule 1: not inside subgraphs": graph(
        new("null", "x"),
        new(
            "_foreach",
            "loop",
            0,
            num_args="2",
            num_outputs="1",
            num_out_data="1",
            in_data_locs="[0]",
            in_state_locs="[]",
            remain_locs="[]",
        )
        | {
            "subgraphs": [
                graph(new("null", "x0", lr_mult="2"), new("Activation", "r", 0, act_type="relu", wd_mult="1"))
            ]
        },
        version=10300,
    ),
    "rule 3: trailing inputs become variables": graph(old("null", "x"), old("FullyConnected", "fc", 0, num_hidden="4")),
    "rule 3: states become variables": graph(
        old("null", "x"),
        old("null", "g"),
        old("null", "b"),
        old("BatchNorm", "bn", 0, 1, 2, eps="0.01"),
        old("IdentityAttachKLSparseReg", "kl", 3, penalty="0.1"),
    ),
    "rule 3: without a node's name": graph(old("null", "x"), old("FullyConnected", "", 0, num_hidden="4")),
    "rule 3: not of operators without names of inputs": graph(old("null", "x"), old("Concat", "c", 0, num_args="1")),
    "rule 4: default initialisers": graph(
        new("null", "x"),
        *_BN,
        new("BatchNorm", "bn", 0, 1, 2, 3, 4),
        new("null", "slope"),
        new("LeakyReLU", "prelu", 5, 6, act_type="prelu"),
        new("null", "up_weight"),
        new("UpSampling", "up", 7, 8, scale="2", sample_type="bilinear", num_filter="3", num_args="2"),
        new("null", "average", __init__='["one", {}]'),
        new("IdentityAttachKLSparseReg", "kl", 9, 10),
        version=903,
    ),
    "rule 4: not since 0.9.4": graph(
        new("null", "x"), new("null", "s"), new("LeakyReLU", "act", 0, 1, act_type="prelu"), version=904
    ),
    "rule 5: an axis of -1 was none": graph(
        new("null", "x"), new("argmax", "max", 0, axis="-1", keepdims="True"), new("argmin", "min", 1), version=904
    ),
    "rule 5: other axes stay": graph(new("null", "x"), new("argmin", "min", 0, axis="-2"), version=800),
    "rule 5: not since 0.9.5": graph(new("null", "x"), new("argmax", "max", 0, axis="-1"), version=905),
    "duplicate names": graph(
        new("null", "x"), new("null", "x"), new("elemwise_add", "x", 0, 1), new("relu", "x", 2), version=10901
    ),
    "variables with attributes of operators": graph(
        new("null", "x"),
        new("null", "conv_weight", kernel="(3, 3)", num_filter="2"),
        new("Convolution", "conv", 0, 1, kernel="(3, 3)", num_filter="2", no_bias="True"),
        version=10901,
    ),
    "aliases": graph(
        new("null", "x"), new("stop_gradient", "s", 0), new("_Plus", "p", 1, 0), new("crop", "c", 2, begin="0", end="1")
    ),
    "files in any order, with what nothing needs": graph(
        new("relu", "r", 2), new("null", "unused"), new("null", "x"), version=10901, heads=[[0, 0, 0]]
    ),
    "strings of the dialect": graph(new("null", 'q" b\\ n\n t\t r\r ü', mood="\u00e9\u4e2d"), version=10901),
    "spellings of parameters": graph(
        new("null", "x"),
        new("Convolution", "c", 0, kernel="[3,3]", num_filter="2", no_bias="true", pad="(1L,1L)", stride="( 2 , 2 )"),
        new("mean", "m", 1, axis="None", keepdims="1"),
        new("slice", "s", 2, begin="(0,)", end="(None,)"),
        new("Reshape", "t", 3, shape="-1"),
    ),
    "parameters that were given as None": graph(
        new("null", "x"), new("Pooling", "p", 0, kernel="(2, 2)", p_value="None", layout="None"), version=10901
    ),
}
"""What is shown → a file that shows it."""
