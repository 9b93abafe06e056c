"""Decoders of language models as current PyTorch jobs build them: Llama-like blocks, optionally with experts, and GPT-2's.

One step is a forward pass, a cross entropy in 4-byte numbers, a backward pass and a fused AdamW. `fsdp` shards a model
over the one device there is (fully_shard, bf16 parameters gathered, gradients reduced in 4-byte numbers): what a device
of a sharded job does beside its messages. `autocast` keeps 4-byte parameters and casts them in every product. With tp > 1
products are cut as torchtitan cuts Llama's, with tokens divided between them.
"""
import contextlib

import absent
import torch
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.nn import functional
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (ColwiseParallel, PrepareModuleInput, RowwiseParallel, SequenceParallel,
                                               loss_parallel, parallelize_module)
from torch.nn.attention import SDPBackend, sdpa_kernel

SEED = 1234
KERNELS = {"flash2": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION}


class Attention(nn.Module):
    """`kernel`: PyTorch's kernels of fused attention that it may take; it is part of a compiled graph, and so of the key
    under which compilers keep it."""

    def __init__(self, shape):
        super().__init__()
        self.kernel = None
        self.heads, self.kv_heads, self.size = shape["heads"], shape["kv_heads"], shape["head"]
        wide, narrow, bias = self.heads * self.size, self.kv_heads * self.size, shape["family"] == "gpt"
        self.rotates = shape["family"] == "llama"
        if self.rotates:
            self.q = nn.Linear(shape["hidden"], wide, bias=False)
            self.k, self.v = (nn.Linear(shape["hidden"], narrow, bias=False) for _ in range(2))
        else:
            self.qkv = nn.Linear(shape["hidden"], wide + 2 * narrow, bias=bias)
        self.project = nn.Linear(wide, shape["hidden"], bias=bias)

    def forward(self, x, turns):
        batch, length, _ = x.shape
        if self.rotates:
            q, k, v = (f(x).view(batch, length, -1, self.size) for f in (self.q, self.k, self.v))
            q, k = turned(q, turns), turned(k, turns)
        else:
            q, k, v = self.qkv(x).view(batch, length, 3, self.heads, self.size).unbind(2)
        q, k, v = (t.transpose(1, 2) for t in (q, k, v))
        with sdpa_kernel(self.kernel) if self.kernel else contextlib.nullcontext():
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=self.heads != self.kv_heads)
        return self.project(y.transpose(1, 2).reshape(batch, length, -1))


def turned(x, turns):
    """Rotary positions, in 4-byte numbers: pairs of halves, as Hugging Face's Llama."""
    cosine, sine = turns
    a, b = x.float().chunk(2, -1)
    return torch.cat((a * cosine - b * sine, b * cosine + a * sine), -1).type_as(x)


class Gated(nn.Module):
    def __init__(self, hidden, inner):
        super().__init__()
        self.gate, self.up = nn.Linear(hidden, inner, bias=False), nn.Linear(hidden, inner, bias=False)
        self.down = nn.Linear(inner, hidden, bias=False)

    def forward(self, x):
        return self.down(functional.silu(self.gate(x)) * self.up(x))


class Wide(nn.Module):
    def __init__(self, hidden, inner):
        super().__init__()
        self.up, self.down = nn.Linear(hidden, inner), nn.Linear(inner, hidden)

    def forward(self, x):
        return self.down(functional.gelu(self.up(x), approximate="tanh"))


class Experts(nn.Module):
    """Experts as grouped products; every expert gets equally many tokens, as benchmarks of mixtures force."""

    def __init__(self, hidden, inner, experts, chosen):
        super().__init__()
        self.router = nn.Linear(hidden, experts, bias=False)
        self.gate, self.up = (nn.Parameter(torch.randn(experts, hidden, inner) * hidden ** -0.5) for _ in range(2))
        self.down = nn.Parameter(torch.randn(experts, inner, hidden) * inner ** -0.5)
        self.experts, self.chosen = experts, chosen

    def forward(self, x):
        shape = x.shape
        x = x.reshape(-1, shape[-1])
        tokens = len(x)
        scores = torch.softmax(self.router(x).float(), -1)
        _, picked = torch.topk(scores, self.chosen, -1)
        even = torch.arange(tokens * self.chosen, device=x.device).view(tokens, self.chosen) % self.experts
        picked = picked * 0 + even
        weights = torch.gather(scores, 1, picked)
        order = torch.argsort(picked.flatten(), stable=True)
        counts = torch.bincount(picked.flatten(), minlength=self.experts) if not torch.compiler.is_compiling() else \
            (picked.flatten().unsqueeze(1) == torch.arange(self.experts, device=x.device)).sum(0)
        ends = torch.cumsum(counts, 0).to(torch.int32)
        rows = x[order // self.chosen]
        half = torch.bfloat16 if x.is_cuda else rows.dtype
        gate, up, down = (w.to(half) for w in (self.gate, self.up, self.down))
        rows = rows.to(half)
        inner = functional.silu(grouped(rows, gate, ends)) * grouped(rows, up, ends)
        results = grouped(inner, down, ends) * weights.flatten()[order].unsqueeze(1).to(half)
        out = torch.zeros(x.shape, dtype=results.dtype, device=x.device)
        return out.index_add(0, order // self.chosen, results).to(x.dtype).view(shape)


def grouped(rows, weights, ends):
    if rows.is_cuda:
        return torch._grouped_mm(rows, weights, offs=ends)
    return torch.bmm(rows.view(len(weights), -1, rows.shape[-1]), weights).flatten(0, 1)


class Block(nn.Module):
    def __init__(self, shape):
        super().__init__()
        llama, hidden = shape["family"] == "llama", shape["hidden"]
        norm = nn.RMSNorm if llama else nn.LayerNorm
        self.norm1, self.norm2 = norm(hidden), norm(hidden)
        self.attention = Attention(shape)
        if shape.get("experts"):
            self.feed = Experts(hidden, shape["ffn"], shape["experts"], shape["topk"])
        else:
            self.feed = (Gated if llama else Wide)(hidden, shape["ffn"])

    def forward(self, x, turns):
        x = x + self.attention(self.norm1(x), turns)
        return x + self.feed(self.norm2(x))


class Decoder(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.shape = shape
        self.words = nn.Embedding(shape["vocab"], shape["hidden"])
        self.positions = nn.Embedding(shape["seq"], shape["hidden"]) if shape["family"] == "gpt" else None
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape["layers"]))
        self.norm = (nn.RMSNorm if shape["family"] == "llama" else nn.LayerNorm)(shape["hidden"])
        self.head = nn.Linear(shape["hidden"], shape["vocab"], bias=False)
        if shape["tied"]:
            self.head.weight = self.words.weight

    def forward(self, tokens):
        length = tokens.shape[1]
        x = self.words(tokens)
        turns = None
        if self.positions is not None:
            x = x + self.positions(torch.arange(length, device=x.device))
        else:
            angles = torch.outer(torch.arange(length, device=x.device).float(), self.frequencies(x.device))
            turns = angles.cos()[:, None], angles.sin()[:, None]
        for block in self.blocks:
            x = block(x, turns)
        return self.head(self.norm(x))

    def frequencies(self, device):
        half = self.shape["head"] // 2
        return 500000.0 ** (-torch.arange(half, device=device).float() / half)


def loss_of(logits, labels):
    return functional.cross_entropy(logits.flatten(0, 1).float(), labels.flatten())


class Job:
    """`step()` trains one step of a configuration (layout_matrix.py)."""

    def __init__(self, configuration, device):
        c = self.configuration = configuration
        torch.manual_seed(SEED)
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
        self.device = torch.device(device)
        with self.device:
            model = Decoder(c.shape)
        mesh = init_device_mesh(self.device.type, (c.dp, c.tp), mesh_dim_names=("dp", "tp"))
        if c.tp > 1:
            divided(model, mesh["tp"])
        if device == "cuda":
            for block in model.blocks:
                block.attention.kernel = KERNELS[c.attention]
        if c.recompute == "full":
            for number, block in enumerate(model.blocks):
                model.blocks[number] = checkpoint_wrapper(block)
        self.loss = loss_of
        if c.compiled:
            for block in model.blocks:
                block.compile(dynamic=False)
            self.loss = torch.compile(loss_of, dynamic=False) if c.tp == 1 else loss_of
        if c.form == "fsdp":
            sharded(model, mesh)
        self.model = model.train()
        if c.form == "ddp":
            self.model = nn.parallel.DistributedDataParallel(model)
            self.model.register_comm_hook(None, absent.summed)
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=device == "cuda")
        self.tokens = torch.randint(0, c.shape["vocab"], (c.batch, c.shape["seq"]), device=self.device)
        self.labels = self.tokens.roll(-1, 1)

    def scope(self):
        half = self.configuration.form in ("autocast", "ddp") and self.device.type == "cuda"
        return torch.autocast("cuda", dtype=torch.bfloat16) if half else contextlib.nullcontext()

    def losses(self):
        return loss_parallel() if self.configuration.tp > 1 else contextlib.nullcontext()

    def step(self, mark=lambda: None):
        mark()
        with self.scope():
            logits = self.model(self.tokens)
        with self.losses():
            loss = self.loss(logits, self.labels)
            del logits
            mark()
            loss.backward()
        mark()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        mark()
        return loss.detach()


def sharded(model, mesh):
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32, cast_forward_inputs=False)
    for block in model.blocks:
        fully_shard(block, mesh=mesh["dp"], mp_policy=policy)
    fully_shard(model, mesh=mesh["dp"], mp_policy=policy)


def divided(model, mesh):
    """Products of every block cut by columns, then by rows; norms and the residual stream by tokens; the loss by words."""
    tokens, whole = Shard(1), Replicate()
    parallelize_module(model, mesh, {
        "words": RowwiseParallel(input_layouts=whole, output_layouts=tokens),
        "norm": SequenceParallel(),
        "head": ColwiseParallel(input_layouts=tokens, output_layouts=Shard(-1), use_local_output=False)})
    for block in model.blocks:
        block = getattr(block, "_checkpoint_wrapped_module", block)
        parallelize_module(block, mesh, {
            "norm1": SequenceParallel(), "norm2": SequenceParallel(),
            "attention": PrepareModuleInput(input_layouts=(tokens, None), desired_input_layouts=(whole, None)),
            "attention.q": ColwiseParallel(), "attention.k": ColwiseParallel(), "attention.v": ColwiseParallel(),
            "attention.project": RowwiseParallel(output_layouts=tokens),
            "feed": PrepareModuleInput(input_layouts=(tokens,), desired_input_layouts=(whole,)),
            "feed.gate": ColwiseParallel(), "feed.up": ColwiseParallel(),
            "feed.down": RowwiseParallel(output_layouts=tokens)})
    with torch.no_grad():  # parts come from a first rank, which a group of absent ones does not ask
        for parameter in model.parameters():
            part = parameter.to_local()
            part.normal_(0, 0.02) if part.dim() > 1 else part.fill_(1)
