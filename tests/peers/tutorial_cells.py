"""Run the cells of a page one by one: `PYTHON tutorial_cells.py CELLS RESULTS FILES SECONDS`.

CELLS is a JSON list of sources; for each a line of JSON is written to RESULTS as it ends. FILES is a folder of what
pages would download. SECONDS of processor time are given to all cells together. Draws of `nd.random` are NumPy's, as
first values are (`script_start.py`). MXNet 1.9.1 runs this file, too: it imports nothing of the project but that.
"""

import ast
import code
import glob
import importlib.abc
import importlib.machinery
import importlib.util
import io
import json
import os
import resource
import shutil
import signal
import sys
import types
import urllib.request
import warnings

import numpy as np

from tests.peers.script_start import begin

DRAWING = ("matplotlib", "matplotlib_inline", "mpl_toolkits", "IPython", "seaborn", "bokeh", "graphviz")
"""Packages that draw: what pages call of them does nothing."""


class Nothing(types.ModuleType):
    """Stands for any object of a package that draws."""

    def __init__(self, name="nothing"):
        super().__init__(name)
        self.__path__ = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Nothing(name)

    def __call__(self, *_, **__):
        return Nothing(self.__name__)

    def __getitem__(self, _):
        return Nothing()

    def __setitem__(self, *_):
        pass

    def __iter__(self):
        return iter([Nothing()] * (3 if self.__name__ == "hist" else 2))  # as many as pages take

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None

    def __repr__(self):
        return "nothing"


class Drawing(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Gives `Nothing` for the packages that draw."""

    def find_spec(self, fullname, path=None, target=None):
        """Return a spec for these packages and their modules."""
        if fullname.split(".")[0] in DRAWING:
            return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        return None

    def create_module(self, spec):
        """Return the module."""
        return Nothing(spec.name)

    def exec_module(self, module):
        """Leave the module as it is."""


def file_for(url, files):
    """The path of the file that stands for a URL's: the one of its name, else one of its ending."""
    name = url.partition("?")[0].rstrip("/").rpartition("/")[2]
    for path in (name, "any" + os.path.splitext(name)[1]):
        if os.path.isfile(os.path.join(files, path)):
            return os.path.join(files, path)
    raise OSError(f"nothing is made in place of {url}")


def answer_downloads(files):
    """Have whatever downloads give what was made instead."""

    def download(url, path=None, third=None, dirname=None, fname=None, **_):
        name = url.partition("?")[0].rpartition("/")[2]
        path = os.path.expanduser(path or fname or name)
        folder = dirname or (third if isinstance(third, str) else "")
        path = os.path.join(path, name) if os.path.isdir(path) else os.path.join(folder, path)
        os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
        if not os.path.exists(path):
            shutil.copy(file_for(url, files), path)
        return path

    def retrieve(url, filename=None, *_):
        return download(url, filename), None

    def opened(url, *_, **__):
        return open(file_for(getattr(url, "full_url", url), files), "rb")

    for name, module in list(sys.modules.items()):
        if name.startswith(("mxnet", "lowering.mx")) and callable(vars(module).get("download")):
            vars(module)["download"] = download

    def got(url, *_, **__):
        with opened(url) as file:
            return types.SimpleNamespace(content=file.read(), status_code=200)

    for name, function in (("urlretrieve", retrieve), ("urlopen", opened)):
        setattr(urllib.request, name, function)
    if importlib.util.find_spec("requests"):
        vars(importlib.import_module("requests"))["get"] = got


def draw_alike(mx):
    """Have plain draws of arrays be NumPy's, in both libraries the same."""
    generator = np.random.RandomState(0)

    def uniform(low=0.0, high=1.0, shape=()):
        return generator.uniform(low, high, shape)

    def normal(loc=0.0, scale=1.0, shape=()):
        return generator.normal(loc, scale, shape)

    def exponential(scale=1.0, shape=()):
        return generator.exponential(scale, shape)

    def replaced(draw, first):
        def drawn(*args, **given):
            plain = {name: given[name] for name in given if name not in ("ctx", "dtype", "out")}
            if given.get("out") is None and all(isinstance(x, (int, float, tuple)) for x in (*args, *plain.values())):
                try:
                    return mx.nd.array(
                        draw(*args, **plain), ctx=given.get("ctx"), dtype=given.get("dtype") or "float32"
                    )
                except TypeError:
                    pass
            return first(*args, **given)

        return drawn

    for draw in (uniform, normal, exponential):
        name = draw.__name__
        for owner, attribute in ((mx.nd.random, name), (mx.random, name), (mx.nd, f"random_{name}")):
            setattr(owner, attribute, replaced(draw, getattr(owner, attribute)))


def draw_numpy_alike(mx):
    """Have draws of `mx.np.random` be NumPy's, in both libraries the same; those of arrays are the library's."""
    generator = np.random.RandomState(0)
    owner = mx.np.random

    def replaced(name, first):
        draw = getattr(generator, name)

        def drawn(*args, dtype=None, ctx=None, out=None, **given):
            if name == "multinomial":
                chances = np.array([float(chance) for chance in given.pop("pvals", args[1:2] and args[1])])
                args = (*args[:1], chances / chances.sum(), *args[2:])
            elif out is not None or any(hasattr(each, "asnumpy") for each in (*args, *given.values())):
                return first(*args, dtype=dtype, ctx=ctx, out=out, **given)
            return mx.np.array(draw(*args, **given), dtype=dtype or KINDS.get(name, "float32"), ctx=ctx)

        return drawn

    for name in ("uniform", "normal", "rand", "randn", "randint", "multinomial", "exponential"):
        if hasattr(owner, name):
            setattr(owner, name, replaced(name, getattr(owner, name)))


KINDS = {"randint": "int64", "multinomial": "int64"}
"""Draws that are not float32."""


def drop_alike(mx):
    """Have what layers drop be drawn by NumPy, where it is arrays that they are given."""
    layer = mx.gluon.nn.Dropout
    first = layer.forward
    generator = np.random.RandomState(0)

    def forward(self, x, *args):
        if not self._rate or not mx.autograd.is_training() or not isinstance(x, mx.np.ndarray):
            return first(self, x, *args)
        kept = generator.uniform(size=x.shape) >= self._rate
        return x * mx.np.array(kept / (1 - self._rate), dtype="float32", ctx=x.ctx)

    layer.forward = forward


def change_pictures_alike(mx):
    """Have layers that change pictures by chance leave them, and the middle be what is cut out of a picture."""
    layers = mx.gluon.data.vision.transforms
    for name in dir(layers):
        if name.startswith("Random"):
            getattr(layers, name).forward = lambda self, x: x
    layers.RandomResizedCrop.forward = lambda self, x: mx.image.center_crop(x, self._args[0])[0]
    mx.image.random_crop = mx.image.center_crop


def load_here(mx):
    """Have loaders work in this process, and keep a batch that may be odd where data are fewer than a batch."""
    loader = mx.gluon.data.DataLoader
    first = loader.__init__

    def init(self, dataset, batch_size=None, *args, num_workers=0, last_batch=None, **given):
        few = batch_size is not None and len(dataset) < batch_size
        first(self, dataset, batch_size, *args, last_batch="keep" if few else last_batch, **given)

    utils = mx.gluon.utils
    split = utils.split_and_load

    def split_and_load(data, ctx_list, batch_axis=0, even_split=False):
        return split(data, ctx_list, batch_axis, even_split=False)

    loader.__init__, utils.split_and_load = init, split_and_load


def load_first_values(mx):
    """Have an empty file of parameters stand for first values."""
    block = mx.gluon.Block
    first = block.load_parameters

    def load(self, filename, ctx=None, *args, **given):
        if os.path.getsize(filename):
            return first(self, filename, ctx, *args, **given)
        return self.initialize(ctx=ctx)

    block.load_parameters = load


class Tab:
    """What a book for several libraries asks for whom it is built: for MXNet."""

    def interact_select(self, *_):
        """Show nothing."""

    def selected(self, *names):
        """Whether MXNet is among the names."""
        return "mxnet" in names


def give_networks(mx):
    """Have networks that would be downloaded be ones with first values."""
    zoo = mx.gluon.model_zoo.vision

    def given(make):
        def network(*args, pretrained=False, ctx=None, root=None, **options):
            made = make(*args, **options)
            if pretrained:
                made.initialize(ctx=ctx or mx.cpu())
            return made

        return network

    names = [
        name for name in dir(zoo) if name.startswith(("alex", "dense", "incep", "mobile", "res", "squeeze", "vgg"))
    ]
    for name in names:
        if isinstance(getattr(zoo, name), types.FunctionType):
            setattr(zoo, name, given(getattr(zoo, name)))
    zoo.get_model = lambda name, **options: getattr(zoo, name.lower().replace(".", "_"))(**options)


def processor_seconds():
    """Seconds that this process and those that it waited for computed."""
    spent = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in spent)


def seconds_of_running_children():
    """Processor seconds of the processes that this one began, and they in turn, as far as they still run: the workers
    of MXNet's DataLoader do."""
    rows = {}
    for path in glob.glob("/proc/[0-9]*/stat"):
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                name, _, fields = file.read().rpartition(") ")
        except OSError:  # it ended meanwhile
            continue
        _, parent, *numbers = fields.split()
        rows[int(name.split()[0])] = int(parent), sum(map(int, numbers[9:13])) / os.sysconf("SC_CLK_TCK")
    ours, seconds = {os.getpid()}, 0.0
    while ours:
        ours = {process for process, (parent, _) in rows.items() if parent in ours}
        seconds += sum(rows[process][1] for process in ours)
    return seconds


class Page(code.InteractiveInterpreter):
    """Runs cells, and holds the error of the last one."""

    error = ""

    def run(self, source):
        """Run a cell; its last expression's value is printed, as notebooks do. What it raised is in `error`."""
        self.error = ""
        try:
            tree = ast.parse(source)
        except SyntaxError as error:
            self.error = f"SyntaxError: {error}"
            return
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        self.runcode(compile(tree, "<cell>", "exec"))
        if isinstance(last, ast.Expr) and not self.error:
            self.locals["last_value_of_a_cell"] = None
            target = ast.Assign([ast.Name("last_value_of_a_cell", ast.Store())], last.value)
            tree = ast.fix_missing_locations(ast.Module([target], []))
            self.runcode(compile(tree, "<cell>", "exec"))
            value = self.locals["last_value_of_a_cell"]
            if value is not None:
                print(repr(value))

    def showtraceback(self):
        """Keep what was raised."""
        kind, error, _ = sys.exc_info()
        self.error = "limit" if kind is TooLong else f"{'' if kind is None else kind.__name__}: {error}"


class TooLong(BaseException):
    """The processor seconds of a page are over."""


def stop(*_):
    """End the cell that runs."""
    raise TooLong


def main():
    """Run all cells; what follows a cell that fails is run."""
    cells, results, files, seconds = sys.argv[1:]
    sys.path[0] = os.getcwd()
    warnings.simplefilter("ignore")
    sys.meta_path.insert(0, Drawing())
    mx = begin()
    answer_downloads(files)
    draw_alike(mx)
    give_networks(mx)
    if "numpy" in os.environ.get("PEER_SCRIPT", ""):
        for change in (draw_numpy_alike, drop_alike, change_pictures_alike, load_here, load_first_values):
            change(mx)
    module = sys.modules["__main__"] = types.ModuleType("__main__")
    vars(module)["tab"] = Tab()
    page = Page(vars(module))
    said = sys.stdout = sys.stderr = io.StringIO()
    signal.signal(signal.SIGXCPU, stop)
    limit = int(processor_seconds() + float(seconds)) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 30))
    with open(cells, encoding="utf-8") as file:
        sources = json.load(file)
    for source in sources:
        said.seek(0)
        said.truncate()
        by_children, began = seconds_of_running_children(), processor_seconds()
        page.run(f"{source}\n")
        mx.nd.waitall()
        seconds = processor_seconds() - began + seconds_of_running_children() - by_children
        row = {"error": page.error[:2000], "seconds": seconds, "said": said.getvalue()[-20000:]}
        with open(results, "a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        if page.error == "limit":
            break
    os._exit(0)  # nothing waits for threads that a page began


if __name__ == "__main__":
    main()
