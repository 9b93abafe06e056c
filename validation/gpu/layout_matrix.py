"""Which transformers are trained on one GPU, and how; standard library only.

Each run is one row: a model in stepcast's words, tokens, what is kept, in which form. Models have the width of those that
people train and as many layers as one card holds. A row of several devices (`dp`, `tp`) is the share of one of them.
"""
from dataclasses import dataclass

SHAPES = {
    "llama-1b": dict(family="llama", hidden=2048, layers=16, heads=32, kv_heads=8, head=64, ffn=8192, vocab=128256, tied=True),
    "llama-8b": dict(family="llama", hidden=4096, layers=6, heads=32, kv_heads=8, head=128, ffn=14336, vocab=32000, tied=False),
    "llama-70b": dict(family="llama", hidden=8192, layers=2, heads=64, kv_heads=8, head=128, ffn=28672, vocab=32000, tied=False),
    "gpt2-xl": dict(family="gpt", hidden=1600, layers=48, heads=25, kv_heads=25, head=64, ffn=6400, vocab=50304, tied=True),
    "qwen3-30b-a3b": dict(family="llama", hidden=2048, layers=3, heads=32, kv_heads=4, head=128, ffn=768, vocab=32000,
                          experts=128, topk=8, tied=False),
    "gpt-oss-20b": dict(family="llama", hidden=2880, layers=2, heads=64, kv_heads=8, head=64, ffn=2880, vocab=32000,
                        experts=32, topk=4, tied=False),
}
TINY = dict(hidden=64, layers=2, heads=16, kv_heads=8, head=16, ffn=128, vocab=256)


@dataclass(frozen=True)
class Layout:
    model: str
    tokens: int                # a sample
    batch: int                 # samples a step
    form: str = "fsdp"         # fsdp; autocast; ddp: autocast, gradients summed in buckets
    compiled: bool = True      # every block, and the loss
    recompute: str = "none"    # none; full: every block
    dp: int = 1                # devices that hold other samples; "fsdp" shards over them
    tp: int = 1                # devices that hold parts of every product
    layers: int = 0            # blocks; 0: those of the model's shape
    vocab: int = 0             # words; 0: those of the model's shape
    attention: str = "flash2"  # flash2; cudnn
    traced: bool = False
    tiny: bool = False

    @property
    def name(self):
        parts = [self.model, f"{self.batch}x{self.tokens}", self.form, "compiled" if self.compiled else "eager"]
        parts += [f"recompute-{self.recompute}"] if self.recompute != "none" else []
        parts += [self.attention] if self.attention != "flash2" else []
        parts += [f"{name}{n}" for name, n in (("layers", self.layers), ("dp", self.dp), ("tp", self.tp)) if n > 1]
        return "-".join(parts)

    @property
    def shape(self):
        shape = dict(SHAPES[self.model], seq=self.tokens)
        shape.update({key: n for key, n in (("layers", self.layers), ("vocab", self.vocab)) if n})
        if self.tiny:
            shape.update(TINY, seq=32, kv_heads=16 if shape["family"] == "gpt" else 8)
            shape.update(experts=8, topk=2) if "experts" in shape else None
        return shape

    @property
    def description(self):
        """The model as stepcast reads it."""
        s = self.shape
        keys = ["hidden", "layers", "heads", "kv_heads", "head", "ffn", "experts", "topk", "vocab", "seq"]
        text = ",".join(f"{key}={s[key]}" for key in keys if key in s)
        drop = ",dropout=0" if s["family"] == "gpt" else ""
        kernels = "compiled" if self.compiled else "eager"
        return (f"{s['family']}:{text},tied={'yes' if s['tied'] else 'no'},attention={self.attention},causal=yes{drop},"
                f"dtype=bf16,kernels={kernels}")

    @property
    def plan(self):
        how = ", zero=3" if self.form == "fsdp" else ""
        how += f", tp={self.tp}, sp=on" if self.tp > 1 else ""
        how += ", recompute=full" if self.recompute == "full" else ""
        return f"layout(dp={self.dp}, mb={self.batch}{how})/ddp"

    @property
    def devices(self):
        return self.dp * self.tp


def layouts(tiny=False):
    rows = []

    def add(model, tokens, batch, **how):
        rows.append(Layout(model, tokens, batch, tiny=tiny, **how))

    for tokens, batch in ((2048, 1), (2048, 2), (2048, 4), (2048, 8), (8192, 1), (8192, 2), (32768, 1)):
        add("llama-1b", tokens, batch, traced=(tokens, batch) == (2048, 4))
    add("llama-1b", 2048, 4, compiled=False, traced=True)
    add("llama-1b", 8192, 1, compiled=False)
    add("llama-1b", 2048, 4, form="autocast")
    add("llama-1b", 2048, 4, form="autocast", compiled=False, traced=True)
    add("llama-1b", 2048, 8, recompute="full")
    add("llama-1b", 8192, 2, recompute="full")
    for tokens, batch in ((2048, 1), (2048, 2), (2048, 4), (4096, 2), (8192, 1), (8192, 2), (32768, 1)):
        add("llama-8b", tokens, batch, traced=(tokens, batch) == (8192, 1))
    add("llama-8b", 8192, 1, attention="cudnn", traced=True)
    add("llama-8b", 32768, 1, attention="cudnn")
    add("llama-8b", 8192, 1, compiled=False, traced=True)
    add("llama-8b", 8192, 1, form="autocast")
    add("llama-8b", 8192, 1, recompute="full")
    add("llama-8b", 8192, 4, recompute="full")
    add("llama-8b", 32768, 1, recompute="full")
    for tokens, batch in ((2048, 1), (4096, 1), (8192, 1)):
        add("llama-70b", tokens, batch)
    add("llama-70b", 8192, 2, recompute="full")
    for tokens, batch in ((1024, 4), (1024, 8)):
        add("gpt2-xl", tokens, batch)
    add("gpt2-xl", 1024, 8, compiled=False)
    add("gpt2-xl", 1024, 8, form="autocast", compiled=False)
    for model in ("qwen3-30b-a3b", "gpt-oss-20b"):
        for tokens, batch in ((4096, 1), (4096, 2), (4096, 4)):
            add(model, tokens, batch, traced=batch == 2)
        add(model, 4096, 2, compiled=False, traced=model == "qwen3-30b-a3b")
        add(model, 4096, 4, recompute="full")
    shares(add)
    return rows


def shares(add):
    """One device's share of jobs of several: whole models, where its memory holds a shard of them."""
    whole = dict(layers=32, vocab=128256)
    for dp in (8, 64):
        add("llama-8b", 8192, 1, dp=dp, **whole)
    add("llama-8b", 8192, 2, dp=8, recompute="full", **whole)
    add("llama-8b", 4096, 1, dp=8, **whole)
    add("llama-8b", 8192, 1, dp=8, recompute="full", compiled=False, **whole)
    for tp in (2, 4, 8):
        add("llama-8b", 8192, 1, dp=4, tp=tp, **whole)
    add("llama-8b", 8192, 4, dp=4, tp=8, **whole)
    add("llama-70b", 8192, 1, dp=64, layers=16, recompute="full")
    for tp in (2, 4, 8):
        add("llama-70b", 8192, 1, dp=8, tp=tp, layers=16, recompute="full")
    add("llama-70b", 8192, 4, dp=8, tp=8, layers=16, recompute="full")
    add("qwen3-30b-a3b", 4096, 1, dp=8, layers=24)
    add("llama-1b", 2048, 1, dp=8)
    add("llama-1b", 2048, 4, dp=8, compiled=False)
    add("llama-1b", 2048, 4, dp=8, form="ddp")
    add("gpt2-xl", 1024, 8, dp=8, form="ddp", compiled=False)
