"""What one training step of a PyTorch model computes, operator by operator, found without computing it.

The step runs once on tensors that have shapes and no values (PyTorch's fake tensors): forward, loss, backward; the
optimizer on tensors of its own. Every operator that PyTorch would have run passes by with its shapes, in the module
that called it, backwards in the module whose operator it differentiates. That needs no accelerator and no memory for
the model, and leaves model and inputs as they are.

A layer is a module with parameters of its own (or an operator that takes a parameter) together with the parameterless
operators that follow it. Matrix products are counted as PyTorch's own counter does (torch.utils.flop_counter); all
other operators by the bytes that they read and write, each input and output once but where their kernels are known to
read twice (norms) or a few rows only (lookups).

Not modelled: fusion by a compiler (a compiled model is described as it is written), kernels that a device's library
takes in place of several operators (cuDNN's recurrent networks), collectives, the input pipeline, work between steps.
"""

from __future__ import annotations

import bisect
import contextlib
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Optional

import torch
from torch import nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map_only

from . import _stepcast
from .errors import InputError
from .files import number_of, shown, text_of, text_of_file

Operator = dict[str, Any]  # name, dtype, products or traffic_bytes, ...; as schema stepcast.operators/1 has it

_TYPES = {torch.float64: "f64", torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16",
          torch.int64: "i64", torch.int32: "i32", torch.int16: "i16", torch.int8: "i8", torch.uint8: "u8",
          torch.bool: "bool", **{getattr(torch, name): "f8" for name in ("float8_e4m3fn", "float8_e5m2")
                                 if hasattr(torch, name)}}
_TENSORS_OF_A_LAUNCH = 50  # of what a kernel over a list of tensors takes at once: 30 to 110 by its kind
_FEW_TERMS = 4  # channels of a group, below which a convolution moves bytes rather than multiplies


# ---- one operator ----

def bytes_of(tensor: torch.Tensor) -> int:
    """What a kernel reads of a tensor: extents that are broadcast, and so lie in memory once, count once."""
    if tensor.layout is not torch.strided:
        return int(tensor.numel() * tensor.element_size())
    elements = 1
    for extent, stride in zip(tensor.shape, tensor.stride()):
        elements *= extent if stride != 0 else min(extent, 1)
    return int(elements * tensor.element_size())


def _tensors_in(values: Any) -> list[torch.Tensor]:
    return [value for value in tree_flatten(values)[0] if isinstance(value, torch.Tensor)]


class Call:
    """One operator with its arguments by name, as they were given or by default, and what it returned."""

    def __init__(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], out: Any) -> None:
        self.schema = func._schema
        self.name: str = self.schema.name.replace("::", ".")  # "aten.addmm"
        self.short = self.name.split(".", 1)[1]
        self.args: dict[str, Any] = {}
        for position, argument in enumerate(self.schema.arguments):
            default = argument.default_value if argument.has_default_value() else None
            self.args[argument.name] = args[position] if position < len(args) else kwargs.get(argument.name, default)
        self.out = out
        self.inputs = _tensors_in(self.args)
        self.outputs = _tensors_in(out)

    def is_view(self) -> bool:
        """Nothing is moved: its results are other views of its inputs."""
        marks = [result.alias_info for result in self.schema.returns]
        return bool(marks) and all(mark is not None and not mark.is_write for mark in marks)

    def written(self) -> list[torch.Tensor]:
        """Arguments that it changes in place."""
        return [tensor for argument in self.schema.arguments
                if argument.alias_info is not None and argument.alias_info.is_write
                for tensor in _tensors_in(self.args[argument.name])]

    def traffic(self, *unread: str) -> int:
        """Bytes of every input but those `unread`, and of what it writes."""
        skipped = {id(tensor) for name in unread for tensor in _tensors_in(self.args.get(name))}
        read = {id(tensor): tensor for tensor in self.inputs if id(tensor) not in skipped}
        wrote = {id(tensor): tensor for tensor in [*self.outputs, *self.written()]}
        return sum(map(bytes_of, read.values())) + sum(map(bytes_of, wrote.values()))

    def bytes_of(self, *names: str) -> int:
        return sum(bytes_of(tensor) for name in names for tensor in _tensors_in(self.args.get(name)))


_NOTHING = {"_unsafe_view", "_reshape_alias", "lift_fresh", "empty", "empty_like", "empty_strided", "new_empty",
            "new_empty_strided", "set_", "resize_", "_local_scalar_dense", "is_same_size",
            "_has_compatible_shallow_copy_type"}
# In place, without a look at what was there.
_OVERWRITES = {"copy_", "fill_", "zero_", "normal_", "uniform_", "random_", "bernoulli_", "exponential_",
               "_foreach_zero_", "_foreach_copy_"}


def _rows_read(call: Call) -> int:
    return 2 * sum(map(bytes_of, call.outputs)) + call.bytes_of("index", "indices")


def _rows_added(values: str) -> Callable[[Call], int]:
    """Rows of `values` are added to those of a table, which is cleared before where it is new."""
    def traffic(call: Call) -> int:
        cleared = 0 if call.written() else sum(map(bytes_of, call.outputs))
        return cleared + 3 * call.bytes_of(values) + call.bytes_of("index", "indices")
    return traffic


def _bag_rows(call: Call) -> int:
    rows = call.args["indices"].numel() * call.args["weight"].shape[-1] * call.args["weight"].element_size()
    return int(rows) + call.bytes_of("indices", "offsets") + bytes_of(call.outputs[0])


def _twice(*names: str) -> Callable[[Call], int]:
    """Its kernels read these a second time."""
    return lambda call: call.traffic() + call.bytes_of(*names)


def _without(*names: str) -> Callable[[Call], int]:
    return lambda call: call.traffic(*names)


def _norm_forward(call: Call) -> int:
    """Of the batch: its statistics come first, unless they are the running ones."""
    trains = call.args.get("training", call.args.get("train", True))
    return call.traffic() + (call.bytes_of("input") if trains else 0)


# What operators move that are not the sum of their arguments and results, and their kernels where they have several.
_TRAFFIC: dict[str, tuple[Callable[[Call], int], int]] = {
    "embedding": (_rows_read, 1),
    "gather": (_rows_read, 1),
    "index": (_rows_read, 1),
    "index_select": (_rows_read, 1),
    "embedding_dense_backward": (_rows_added("grad_output"), 2),
    "index_put": (_rows_added("values"), 2),
    "index_put_": (_rows_added("values"), 1),
    "_index_put_impl_": (_rows_added("values"), 1),
    "index_add_": (_rows_added("source"), 1),
    "scatter_add": (_rows_added("src"), 2),
    "scatter_add_": (_rows_added("src"), 1),
    "_embedding_bag": (_bag_rows, 1),
    "_embedding_bag_forward_only": (_bag_rows, 1),
    "_embedding_bag_dense_backward":
        (lambda call: sum(map(bytes_of, call.outputs)) + 3 * call.args["indices"].numel()
         * call.args["grad"].shape[-1] * call.args["grad"].element_size(), 2),
    "nll_loss_forward": (lambda call: 3 * call.bytes_of("target"), 1),
    "nll_loss2d_forward": (lambda call: 3 * call.bytes_of("target"), 1),
    "nll_loss_backward": (lambda call: sum(map(bytes_of, call.outputs)) + 2 * call.bytes_of("target"), 2),
    "nll_loss2d_backward": (lambda call: sum(map(bytes_of, call.outputs)) + 2 * call.bytes_of("target"), 2),
    "max_pool2d_with_indices_backward": (_without("self"), 1),
    "native_batch_norm": (_norm_forward, 1),
    "cudnn_batch_norm": (_norm_forward, 1),
    "_native_batch_norm_legit": (_norm_forward, 1),
    "_native_batch_norm_legit_functional": (_norm_forward, 1),
    "_batch_norm_with_update": (_norm_forward, 1),
    "native_batch_norm_backward": (_twice("grad_out", "input"), 1),
    "batch_norm_backward": (_twice("grad_out", "input"), 1),
    "cudnn_batch_norm_backward": (_twice("grad_output", "input"), 1),
    "native_layer_norm_backward": (_twice("grad_out", "input"), 2),
    "native_group_norm": (_twice("input"), 2),
    "native_group_norm_backward": (_twice("grad_out", "input"), 2),
    "_fused_rms_norm_backward": (_twice("grad_out", "input"), 2),
    **{name: (_without("self"), 1) for name in _OVERWRITES},
}


def _product_type(tensor: torch.Tensor, convolution: bool) -> str:
    """As PyTorch's settings have it: f32 may be multiplied as tf32 by a device that can."""
    name = _TYPES.get(tensor.dtype, "")
    reduced = torch.backends.cudnn.allow_tf32 if convolution else torch.get_float32_matmul_precision() != "highest"
    return "tf32" if name == "f32" and reduced else name


def _product(batch: float, m: float, n: float, k: float, repeated: float = 0) -> list[float]:
    return [batch, m, n, k, repeated]


def _flops_of(products: list[list[float]]) -> float:
    return sum(2 * batch * m * n * k for batch, m, n, k, _ in products)


def _check_types(call: Call, left: torch.Tensor, right: torch.Tensor) -> None:
    """Tensors without values are multiplied whatever their types are; with values PyTorch refuses to."""
    types = {left.dtype, right.dtype}
    if len(types) > 1 and types <= {torch.float64, torch.float32, torch.float16, torch.bfloat16}:
        raise InputError(call.name, "factors of one type, as PyTorch multiplies no others",
                         " and ".join(sorted(map(str, types))),
                         "give inputs of the model's type, or autocast=torch.bfloat16")


def _multiplied(call: Call, a: str, b: str) -> list[Operator]:
    left, right = call.args[a], call.args[b]
    _check_types(call, left, right)
    batch = left.shape[0] if left.dim() == 3 else 1
    products = [_product(batch, left.shape[-2], right.shape[-1], left.shape[-1])]
    return [{"name": call.name, "dtype": _product_type(left, False), "products": products,
             "flops": _flops_of(products)}]


def _grouped(call: Call) -> list[Operator]:
    """Products of experts, each with an even share of the rows: which of them gets how many is in the values."""
    left, right, ends = call.args["self"], call.args["mat2"], call.args["offs"]
    if ends is None:
        return _multiplied(call, "self", "mat2")
    _check_types(call, left, right)
    groups = max(1, ends.shape[0])
    m, n, k = left.shape[-2], right.shape[-1], left.shape[-1]
    if left.dim() == 2 and right.dim() == 2:
        k /= groups
    elif left.dim() == 2:
        m /= groups
    else:
        n /= groups
    products = [_product(groups, m, n, k)]
    return [{"name": call.name, "dtype": _product_type(left, False), "products": products,
             "flops": _flops_of(products)}]


def _window(call: Call, output: torch.Tensor) -> tuple[list[float], bool]:
    """A convolution as an implicit product of each group: a row per output pixel, a column per output channel, a term
    per input channel and position of the window; and whether that has so few terms that its bytes decide."""
    source, weight, groups = call.args["input"], call.args["weight"], call.args["groups"]
    transposed = call.args["transposed"]
    window = math.prod(weight.shape[2:])
    one, other = weight.shape[0] // groups, weight.shape[1]  # outputs and inputs of a group; transposed: the reverse
    if transposed:  # the input's gradient of a convolution that leads back
        pixels, n, k = source.shape[0] * math.prod(source.shape[2:]), other * window, one
        repeated = max(0.0, pixels * n - output.numel() / groups)
    else:
        pixels, n, k = output.shape[0] * math.prod(output.shape[2:]), one, other * window
        repeated = max(0.0, pixels * k - source.numel() / groups)
    return _product(groups, pixels, n, k, repeated), groups > 1 and min(one, other) < _FEW_TERMS


def _convolved(call: Call) -> list[Operator]:
    product, is_thin = _window(call, call.outputs[0])
    operator: Operator = {"name": call.name, "flops": _flops_of([product])}
    if is_thin:
        return [{**operator, "traffic_bytes": call.traffic()}]
    return [{**operator, "dtype": _product_type(call.args["input"], True), "products": [product]}]


def _convolved_backward(call: Call) -> list[Operator]:
    gradient, source, weight = (call.args[name] for name in ("grad_output", "input", "weight"))
    (batch, m, n, k, repeated), is_thin = _window(call, gradient)
    of_input, of_weight, of_bias = call.args["output_mask"]
    flops = _flops_of([_product(batch, m, n, k)])
    operators: list[Operator] = []
    for wanted, product, split, moved in ((of_input, _product(batch, m, k, n, repeated), 1, gradient),
                                          (of_weight, _product(batch, k, n, m, repeated), source.shape[0], source)):
        if not wanted:
            continue
        operator: Operator = {"name": call.name, "flops": flops}
        if is_thin:
            operators.append({**operator, "traffic_bytes": bytes_of(gradient) + bytes_of(moved) + bytes_of(weight)})
        else:
            operators.append({**operator, "dtype": _product_type(source, True), "products": [product], "split": split})
    if of_bias:
        operators.append({"name": call.name, "traffic_bytes": bytes_of(gradient)})
    return operators


def _attended(call: Call) -> list[Operator]:
    """One kernel that keeps scores on the chip; backward it does them again. Causal ones skip half of the tiles."""
    query, key, value = call.args["query"], call.args["key"], call.args["value"]
    heads, rows, size, columns, width = (query.shape[0] * query.shape[1], query.shape[2], query.shape[3],
                                         key.shape[2], value.shape[3])
    causal = 0.5 if call.args.get("is_causal") else 1
    scores = _product(heads * causal, rows, columns, size, rows * columns)
    context = _product(heads * causal, rows, width, columns, rows * columns)
    products, attention = [scores, context], "forward"
    if call.short.endswith("_backward"):
        attention = "backward"
        products = [scores,  # again
                    _product(heads * causal, rows, size, columns, rows * columns),  # of the query
                    _product(heads * causal, columns, size, rows, rows * columns),  # of the key
                    _product(heads * causal, rows, columns, width, rows * columns),  # of the probabilities
                    _product(heads * causal, columns, width, rows, rows * columns)]  # of the value
    return [{"name": call.name, "dtype": _product_type(query, False), "products": products, "attention": attention,
             "flops": _flops_of(products) / causal}]


_ATTENTION = ("_scaled_dot_product_flash_attention_for_cpu", "_scaled_dot_product_flash_attention",
              "_scaled_dot_product_efficient_attention", "_scaled_dot_product_cudnn_attention",
              "_scaled_dot_product_fused_attention_overrideable")
_PRODUCTS: dict[str, Callable[[Call], list[Operator]]] = {
    "mm": lambda call: _multiplied(call, "self", "mat2"),
    "bmm": lambda call: _multiplied(call, "self", "mat2"),
    "addmm": lambda call: _multiplied(call, "mat1", "mat2"),
    "baddbmm": lambda call: _multiplied(call, "batch1", "batch2"),
    "_scaled_mm": lambda call: _multiplied(call, "self", "mat2"),
    "_grouped_mm": _grouped,
    "convolution": _convolved,
    "convolution_backward": _convolved_backward,
    **dict.fromkeys([*_ATTENTION, *(name + "_backward" for name in _ATTENTION)], _attended),
}


# Operators that multiply, by their names.
_MULTIPLIES = re.compile(r"mm(_|$)|conv|matmul|linear(_|$)|attention|lstm|gru_|rnn")


def _is_empty(product: list[float]) -> bool:
    return not all(extent > 0 for extent in product[:4])


def operators_of(call: Call) -> list[Operator]:
    """What the device computes for a call: none, one or several operators."""
    if call.short in _NOTHING or call.is_view() or not (call.outputs or call.written()):
        return []
    if call.short in _PRODUCTS:
        operators = _PRODUCTS[call.short](call)
        if all(operator.get("dtype", "f32") for operator in operators):  # else of a type that profiles do not know
            return [o for o in operators if not any(map(_is_empty, o.get("products", ())))]
    traffic, kernels = _TRAFFIC.get(call.short, (Call.traffic, 1))
    if call.short.startswith("_foreach_") or call.short.startswith("_fused_"):
        kernels = -(-len(_tensors_in(call.args.get("self"))) // _TENSORS_OF_A_LAUNCH)
    return [{"name": call.name, "traffic_bytes": traffic(call), "kernels": kernels}]


# ---- the step ----

_next_node: Callable[[], int] = getattr(torch.autograd, "_get_sequence_nr")  # its number, in this thread

class _Layer:
    def __init__(self, name: str) -> None:
        self.name = name
        self.input: Optional[torch.Tensor] = None
        self.kept = 0
        self.forward: list[Operator] = []
        self.backward: list[Operator] = []
        self.ended = -1  # when its backward pass did, in operators


class _FusedAttention(TorchFunctionMode):
    """Dropout inside attention: kernels of accelerators do it on the way, those of the host do not fuse it."""

    def __init__(self) -> None:
        super().__init__()
        self.dropped = False

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if func is functional.scaled_dot_product_attention:
            self.dropped = self.dropped or bool((args[4] if len(args) > 4 else kwargs.get("dropout_p", 0.0)) > 0)
            args = (*args[:4], 0.0, *args[5:]) if len(args) > 4 else args
            kwargs.pop("dropout_p", None)
        return func(*args, **kwargs)


class _Step(TorchDispatchMode):
    """Sees every operator of a step, and says which layer it belongs to."""

    def __init__(self, model: nn.Module, names: Mapping[int, str]) -> None:
        super().__init__()
        self.names = names  # of the parameters by their identity
        self.layers: dict[str, _Layer] = {}
        self.current: Optional[_Layer] = None
        self.before: list[Operator] = []  # operators ahead of the first layer
        self.inside: list[str] = []  # modules with parameters, innermost last
        self.made_in: dict[int, _Layer] = {}  # nodes of autograd by their number
        self.numbers: list[int] = []
        self.gradients: list[tuple[str, Optional[_Layer]]] = []
        self.seen = 0
        self.unknown: set[str] = set()
        self.saved: dict[int, torch.Tensor] = {}  # storages that are counted, or not to be
        self.handles = [handle for name, module in model.named_modules() if self._is_layer(module)
                        for handle in (module.register_forward_pre_hook(self._entered(name or type(module).__name__)),
                                       module.register_forward_hook(self._left, always_call=True))]

    @staticmethod
    def _is_layer(module: nn.Module) -> bool:
        own = next(module.parameters(recurse=False), None) is not None
        return own and all(next(child.parameters(), None) is None for child in module.children())

    def _entered(self, name: str) -> Callable[[nn.Module, Any], None]:
        def hook(_: nn.Module, inputs: Any) -> None:
            self.inside.append(name)
            layer = self._enter(name)
            layer.input = layer.input if layer.input is not None else next(iter(_tensors_in(inputs)), None)
        return hook

    def _left(self, *_: Any) -> None:
        self.inside.pop()

    def _enter(self, name: str) -> _Layer:
        self.current = self.layers.setdefault(name, _Layer(name))
        self.current.forward += self.before
        self.before = []
        return self.current

    def _forward_layer(self, inputs: Sequence[torch.Tensor]) -> Optional[_Layer]:
        """An operator that takes a parameter outside of a layer's module begins a layer that is called as its owner."""
        if not self.inside:
            taken = next((self.names[id(tensor)] for tensor in inputs if id(tensor) in self.names), None)
            if taken is not None:
                layer = self._enter(taken.rpartition(".")[0] or taken)
                others = (tensor for tensor in inputs if id(tensor) not in self.names)
                layer.input = layer.input if layer.input is not None else next(others, None)
        return self.current

    def _backward_layer(self, number: int) -> Optional[_Layer]:
        if number in self.made_in:
            return self.made_in[number]
        if number >= 2**63:  # a gradient that is added up
            return self.current
        before = bisect.bisect(self.numbers, number) - 1
        return self.made_in[self.numbers[before]] if before >= 0 else self.current

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        if func.namespace == "prim":
            return out
        call = Call(func, args, kwargs, out)
        node = torch._C._current_autograd_node()
        is_backward = node is not None
        if not is_backward or self.inside:  # a checkpoint runs modules forward again in the backward pass
            layer = self._forward_layer(call.inputs)
            number = _next_node() - 1  # of the node that was made for this operator, if one was
            if layer is not None and number not in self.made_in:
                self.made_in[number] = layer
                bisect.insort(self.numbers, number)
        else:
            layer = self._backward_layer(node._sequence_nr())
        if is_backward:
            self.current = layer
        self._add(call, layer, is_backward)
        return out

    def _add(self, call: Call, layer: Optional[_Layer], is_backward: bool) -> None:
        operators = operators_of(call)
        self.seen += 1
        if _is_uncounted(call, operators):
            self.unknown.add(call.name)
        if layer is None:
            self.before += operators
        elif is_backward:
            layer.backward += operators
            layer.ended = self.seen
        else:
            layer.forward += operators

    def came(self, name: str) -> Callable[[torch.Tensor], None]:
        """What to do when the gradient of a parameter is complete."""
        return lambda _: self.gradients.append((name, self.current))

    def keep(self, tensor: torch.Tensor) -> torch.Tensor:
        """Counts what autograd holds for the backward pass, each storage once."""
        storage = tensor.untyped_storage()
        if storage._cdata not in self.saved:
            self.saved[storage._cdata] = tensor  # so that no other storage gets its place
            if self.current is not None:
                self.current.kept += storage.nbytes()
        return tensor

    def close(self) -> None:
        for handle in self.handles:
            handle.remove()


def _is_uncounted(call: Call, operators: list[Operator]) -> bool:
    """Whether this operator multiplies, and we do not count it: a kernel that is not known, or its type is not."""
    is_empty = any(tensor.numel() == 0 for tensor in call.inputs)
    return _MULTIPLIES.search(call.short) is not None and not is_empty and not call.is_view() \
        and not any("flops" in operator for operator in operators)


# ---- what stands around it ----

_OPTIMIZERS = "a function of the parameters that returns an optimizer, such as torch.optim.AdamW"


class Operators:
    """What one training step computes, operator by operator, for any device. Immutable.

        listed = stepcast.torch.operators(model, images, loss=lambda out: F.cross_entropy(out, labels))
        listed.parameters, listed.flops, listed.activation_bytes
        listed.on("H100"), listed.on("B200")   # profiles
    """

    def __init__(self, document: dict[str, Any], parameters: int) -> None:
        self._document = document
        self._parameters = parameters

    @property
    def model(self) -> str:
        return str(self._document["model"])

    @property
    def batch_samples(self) -> float:
        return float(self._document["batch_samples"])

    @property
    def parameters(self) -> int:
        """Elements of all parameters, shared ones once, frozen ones, too."""
        return self._parameters

    @property
    def flops(self) -> float:
        """Of all products, forward and backward, as PyTorch's FlopCounterMode counts them; also those of experts, which
        that leaves out; of convolutions in groups each group's own channels alone."""
        return sum(operator.get("flops", 0.0) for _, _, operator in self._each())

    @property
    def activation_bytes(self) -> float:
        """What autograd holds between forward and backward pass."""
        return float(sum(layer["kept_bytes"] for layer in self._document["layers"]))

    def _each(self) -> Iterator[tuple[str, str, Operator]]:
        for layer in self._document["layers"]:
            for direction in ("forward", "backward"):
                for operator in layer[direction]:
                    yield layer["name"], direction, operator

    def to_pandas(self) -> Any:
        """A row an operator: layer, pass, operator, flops, the bytes that those without products move."""
        import pandas
        return pandas.DataFrame(
            [(layer, direction, o["name"], o.get("dtype", ""), o.get("flops", 0.0), o.get("traffic_bytes"))
             for layer, direction, o in self._each()],
            columns=["layer", "pass", "operator", "dtype", "flops", "traffic_bytes"])

    def to_json(self) -> str:
        """Schema stepcast.operators/1."""
        def plain(operators: list[Operator]) -> list[Operator]:
            return [{key: value for key, value in operator.items() if key != "flops"} for operator in operators]
        layers = [{**layer, "forward": plain(layer["forward"]), "backward": plain(layer["backward"])}
                  for layer in self._document["layers"]]
        return json.dumps({**self._document, "layers": layers, "update": plain(self._document["update"])})

    def on(self, device: Any) -> Any:
        """The profile on a shipped device ("H100"), or on that of a JSON file (as `--device` takes it)."""
        is_file = not isinstance(device, str) or "/" in device or device.endswith(".json")
        name, text = text_of_file(device) if is_file else (text_of(device, "device"), None)
        return _stepcast.listed_profile(self.to_json(), name, text)

    def __repr__(self) -> str:
        return (f"Operators of {self.model}: {self.parameters:,} parameters, {self.flops:.4g} operations a step of "
                f"{self.batch_samples:g} samples in {sum(1 for _ in self._each()):,} operators")


def _unwrapped(model: Any) -> nn.Module:
    """The module inside DistributedDataParallel, torch.compile's wrapper and DataParallel."""
    while isinstance(model, nn.Module):
        if hasattr(model, "_orig_mod"):
            model = model._orig_mod
        elif isinstance(model, (nn.parallel.DistributedDataParallel, nn.DataParallel)):
            model = model.module
        else:
            return model
    raise InputError("model", "a torch.nn.Module", shown(model))


def _default_loss(output: Any, notes: list[str]) -> torch.Tensor:
    """The loss that a model returns itself, or the sum of what it returns."""
    found = getattr(output, "loss", None)
    if found is None and isinstance(output, Mapping):
        found = output.get("loss")
    if isinstance(found, torch.Tensor):
        return found
    floating = [tensor for tensor in _tensors_in(list(output.values()) if isinstance(output, Mapping) else output)
                if tensor.is_floating_point() and tensor.requires_grad]
    if not floating:
        raise InputError("loss", "a function of the model's output that returns a number", "none",
                         "the model returns no tensor that depends on its parameters")
    if floating[0].dim() == 0:
        return floating[0]
    notes.append("loss: the sum of what the model returns (loss= says another one)")
    return floating[0].sum()


def _loss_of(loss: Any, output: Any, notes: list[str]) -> torch.Tensor:
    value = _default_loss(output, notes) if loss is None else loss(output)
    if not isinstance(value, torch.Tensor) or value.numel() != 1:
        found = f"a tensor of shape {tuple(value.shape)}" if isinstance(value, torch.Tensor) else shown(value)
        raise InputError("loss", "a function of the model's output that returns one number", found)
    if not value.requires_grad:
        raise InputError("loss", "one that depends on parameters that are trained", "none of them does",
                         "gradients are off: torch.no_grad, requires_grad=False, or a detached output")
    return value


@contextlib.contextmanager
def _shapes_only(model: nn.Module) -> Iterator[Any]:
    """Tensors without values; where one is needed, the error says what to do."""
    from torch._subclasses import fake_tensor
    try:
        with fake_tensor.FakeTensorMode(allow_non_fake_inputs=True) as mode:
            yield mode
    except (fake_tensor.DataDependentOutputException, fake_tensor.DynamicOutputShapeException) as error:
        raise InputError(type(model).__name__, "operators whose shapes do not depend on values",
                         str(getattr(error, "func", error)),
                         "describe the parts around it, or record a step that runs: stepcast.torch.record") from error
    except InputError:
        raise
    except fake_tensor.UnsupportedOperatorException as error:
        raise InputError(type(model).__name__, "operators that say their shapes without values",
                         str(getattr(error, "func", error)), "register a fake implementation: torch.library") from error
    except (RuntimeError, TypeError, ValueError, AssertionError) as error:
        said = [line.strip() for line in str(error).splitlines() if line.strip()]
        raise InputError(type(model).__name__, "a step that runs on tensors without values",
                         said[0] if said else type(error).__name__,
                         "what its loss holds besides the output has to lie on the CPU, not on 'meta'"
                         if "meta" in str(error) else "does it run with values?") from error


def _empty(tensor: torch.Tensor) -> torch.Tensor:
    """The same without values, as if on the host: where a step is described, it has no device."""
    if tensor.layout is not torch.strided:
        raise InputError("inputs", "dense tensors", f"a tensor of layout {tensor.layout}")
    like = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="cpu")
    return like.requires_grad_(tensor.requires_grad)


def _update(optimizer: Any, parameters: Sequence[torch.Tensor]) -> tuple[str, list[Operator], float]:
    """The optimizer's name, what its second step does (the first one makes its state), and its state's bytes."""
    from torch._subclasses.fake_tensor import FakeTensorMode
    # Most optimizers compute with the number of the step, which has a value beside tensors on "meta"; fused ones take
    # no such tensors.
    try:
        return _update_on("meta", optimizer, parameters)
    except (RuntimeError, TypeError, NotImplementedError):
        pass
    try:
        with FakeTensorMode():
            return _update_on("cpu", optimizer, parameters)
    except (RuntimeError, TypeError, NotImplementedError) as error:
        reason = str(error).strip().splitlines()
        raise InputError("optimizer", "one whose step needs neither values nor a closure", reason[0] if reason else "",
                         "describe the model with one that is like it: torch.optim.AdamW") from error


def _update_on(device: str, optimizer: Any, parameters: Sequence[torch.Tensor]) -> tuple[str, list[Operator], float]:
    shapes = [nn.Parameter(torch.empty(p.shape, dtype=p.dtype, device=device)) for p in parameters]
    for parameter in shapes:
        parameter.grad = torch.empty_like(parameter)
    made = optimizer(shapes)
    if not isinstance(made, torch.optim.Optimizer):
        raise InputError("optimizer", _OPTIMIZERS, shown(made))
    for group in made.param_groups:
        if "foreach" in group and group["foreach"] is None and not group.get("fused"):
            group["foreach"] = True  # what PyTorch takes on an accelerator
    made.step()
    operators: list[Operator] = []

    class Seen(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            out = func(*args, **(kwargs or {}))
            call = Call(func, args, kwargs or {}, out)
            if func.namespace != "prim" and any(tensor.dim() > 0 for tensor in [*call.inputs, *call.outputs]):
                operators.extend(operators_of(call))
            return out

    with Seen():
        made.step()
    state = sum(bytes_of(value) for values in made.state.values() for value in values.values()
                if isinstance(value, torch.Tensor) and value.dim() > 0)
    return type(made).__name__, operators, state


def _samples(inputs: Sequence[Any], keywords: Mapping[str, Any], batch: Any) -> float:
    if batch:
        return number_of(batch, "batch", "a number of samples")
    first = next((tensor for tensor in _tensors_in([list(inputs), dict(keywords)]) if tensor.dim() > 0), None)
    return float(first.shape[0]) if first is not None else 0.0


def _run(model: nn.Module, inputs: Sequence[Any], keywords: Mapping[str, Any], loss: Any, autocast: Any,
         notes: list[str]) -> tuple[_Step, dict[str, torch.Tensor]]:
    """Forward and backward pass once; what was seen, and the parameters that are trained."""
    with _shapes_only(model), contextlib.ExitStack() as stack:
        made = {name: nn.Parameter(_empty(p.detach()), requires_grad=p.requires_grad)
                for name, p in model.named_parameters()}
        buffers = {name: _empty(buffer.detach()) for name, buffer in model.named_buffers()}
        inputs, keywords = tree_map_only(torch.Tensor, _empty, (tuple(inputs), dict(keywords)))
        step = _Step(model, {id(p): name for name, p in made.items()})
        stack.callback(step.close)
        for tensor in [*made.values(), *buffers.values(), *_tensors_in([inputs, keywords])]:
            step.saved[tensor.untyped_storage()._cdata] = tensor  # is there anyway
        for name, parameter in made.items():
            if parameter.requires_grad:
                parameter.register_post_accumulate_grad_hook(step.came(name))
        attention = stack.enter_context(_FusedAttention())
        stack.enter_context(step)
        stack.enter_context(torch.enable_grad())
        stack.callback(torch._C._set_mkldnn_enabled, torch._C._get_mkldnn_enabled())
        torch._C._set_mkldnn_enabled(False)  # it makes one operator of recurrent layers, which hides their products
        with torch.autograd.graph.saved_tensors_hooks(step.keep, lambda tensor: tensor):
            with torch.autocast("cpu", dtype=autocast) if autocast is not None else contextlib.nullcontext():
                output = torch.func.functional_call(model, {**made, **buffers}, inputs, dict(keywords))
                value = _loss_of(loss, output, notes)
        value.backward()
    if attention.dropped:
        notes.append("dropout inside attention: no time of its own, as in fused kernels")
    return step, {name: p for name, p in made.items() if p.requires_grad}


def traced_operators(model: Any, inputs: Sequence[Any], loss: Any, optimizer: Any, batch: Any, autocast: Any,
                     kwargs: Optional[Mapping[str, Any]]) -> Operators:
    """As stepcast.torch.operators says."""
    model = _unwrapped(model)
    if autocast is not None and not isinstance(autocast, torch.dtype):
        raise InputError("autocast", "a data type such as torch.bfloat16", shown(autocast))
    if autocast is not None and autocast not in (torch.bfloat16, torch.float16):
        raise InputError("autocast", "torch.bfloat16 or torch.float16", str(autocast))
    if kwargs is not None and not isinstance(kwargs, Mapping):
        raise InputError("kwargs", "a dictionary of arguments", shown(kwargs))
    if loss is not None and not callable(loss):
        raise InputError("loss", "a function of the model's output", shown(loss))
    if not callable(optimizer):
        raise InputError("optimizer", _OPTIMIZERS, shown(optimizer))
    if not any(p.requires_grad for p in model.parameters()):
        raise InputError("model", "parameters that are trained", "none that require gradients",
                         "a step of inference has no gradients to communicate")
    notes: list[str] = []
    step, trained = _run(model, inputs, kwargs or {}, loss, autocast, notes)
    layers = [layer for layer in step.layers.values() if layer.forward or layer.backward or layer.kept
              or any(of is layer for _, of in step.gradients)]
    index = {id(layer): i for i, layer in enumerate(layers)}
    order = sorted(range(len(layers)), key=lambda i: (layers[i].ended < 0, layers[i].ended, -i))
    place = {layer: position for position, layer in enumerate(order)}
    ready = [(name, index[id(layer)]) for name, layer in step.gradients if layer is not None]
    ready.sort(key=lambda tensor: place[tensor[1]])  # stable
    if not ready:
        raise InputError("loss", "one that depends on parameters that are trained", "no parameter got a gradient")
    named = dict(ready)
    without = [name for name in trained if name not in named]
    if without:
        notes.append(f"{len(without)} of {len(trained)} parameters get no gradient, such as {without[0]}")
    if step.unknown:
        notes.append(f"products of {', '.join(sorted(step.unknown))} are not counted: priced by their bytes")
    with_gradient = [trained[name] for name in named]
    update, operators, state = _update(optimizer, with_gradient)
    notes.append(f"optimizer: {update}")
    held = sum(2 * bytes_of(p) for p in with_gradient) + state
    count = sum(p.numel() for p in model.parameters())
    document = {
        "schema": "stepcast.operators/1",
        "model": type(model).__name__,
        "batch_samples": _samples(inputs, kwargs or {}, batch),
        "layers": [{"name": layer.name, "kept_bytes": layer.kept, "forward": layer.forward, "backward": layer.backward,
                    **_input_of(layer)} for layer in layers],
        "backward_order": order,
        "tensors": [{"name": name, "shape": list(trained[name].shape), "dtype": _TYPES.get(trained[name].dtype, "f32"),
                     "layer": layer} for name, layer in ready],
        "update": operators,
        "bytes_of_state_per_parameter": held / sum(p.numel() for p in with_gradient),
        "recognised": [f"{count / 1e6:.1f} million parameters in {len(layers)} layers, "
                       f"{sum(len(layer.forward) + len(layer.backward) for layer in layers)} operators"],
        "assumed": notes,
    }
    return Operators(document, count)


def _input_of(layer: _Layer) -> dict[str, Any]:
    if layer.input is None or layer.input.dtype not in _TYPES:
        return {}
    return {"input_shape": list(layer.input.shape), "input_dtype": _TYPES[layer.input.dtype]}


