#!/usr/bin/env python3
"""stepcast.torch: what is described equals what PyTorch itself counts, keeps and orders; what is recorded is read.

Runs where PyTorch is: with this interpreter, or with that of validation/lab (build/lab-python, which validation/lab/run
makes); else it says so and ends with status 5. torchvision and transformers are used where they are installed.
"""

import importlib.util
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import warnings

ROOT = pathlib.Path(__file__).resolve().parents[2]
LAB = ROOT / "build" / "lab-python" / "bin" / "python"

if importlib.util.find_spec("torch") is None:
    if LAB.exists() and pathlib.Path(sys.prefix) != LAB.parents[1]:
        os.execv(LAB, [str(LAB), *sys.argv])
    print("skipped: PyTorch is neither installed nor in build/lab-python (validation/lab/run fetches it, 3 GB)")
    sys.exit(5)

import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

import stepcast  # noqa: E402
import stepcast.torch  # noqa: E402

CLUSTER = dict(workers=16, per_node=8, network="100 Gb/s", inside="450 GB/s")


def installed(name):
    return importlib.util.find_spec(name) is not None


class Bottleneck(nn.Module):
    """ResNet-50's, as torchvision has it."""

    def __init__(self, inputs, width, stride):
        super().__init__()
        outputs = 4 * width
        self.conv1, self.bn1 = nn.Conv2d(inputs, width, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
        self.conv3, self.bn3 = nn.Conv2d(width, outputs, 1, bias=False), nn.BatchNorm2d(outputs)
        self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)) \
            if stride != 1 or inputs != outputs else nn.Identity()

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        y = F.relu(self.bn2(self.conv2(y)))
        return F.relu(self.bn3(self.conv3(y)) + self.downsample(x))


def resnet50():
    if installed("torchvision"):
        import torchvision
        return torchvision.models.resnet50()
    layers, inputs = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)], 64
    for stage, blocks in enumerate((3, 4, 6, 3)):
        for block in range(blocks):
            layers.append(Bottleneck(inputs, 64 << stage, 2 if stage and not block else 1))
            inputs = 256 << stage
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000))


class Gpt(nn.Module):
    """nanoGPT in short: learned positions, pre-norm blocks, a head that shares the embedding's weight."""

    class Block(nn.Module):
        def __init__(self, hidden, heads, dropout):
            super().__init__()
            self.heads, self.dropout = heads, dropout
            self.ln_1, self.ln_2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
            self.c_attn, self.c_proj = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
            self.mlp = nn.Sequential(nn.Linear(hidden, 4 * hidden), nn.GELU(), nn.Linear(4 * hidden, hidden))

        def forward(self, x):
            b, t, h = x.shape
            q, k, v = (y.view(b, t, self.heads, h // self.heads).transpose(1, 2)
                       for y in self.c_attn(self.ln_1(x)).split(h, dim=2))
            y = F.scaled_dot_product_attention(q, k, v, dropout_p=self.dropout, is_causal=True)
            x = x + self.c_proj(y.transpose(1, 2).reshape(b, t, h))
            return x + self.mlp(self.ln_2(x))

    def __init__(self, vocabulary=512, length=64, hidden=64, heads=4, layers=3, dropout=0.0):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, hidden), nn.Embedding(length, hidden)
        self.h = nn.ModuleList(self.Block(hidden, heads, dropout) for _ in range(layers))
        self.ln_f, self.lm_head = nn.LayerNorm(hidden), nn.Linear(hidden, vocabulary, bias=False)
        self.lm_head.weight = self.wte.weight

    def forward(self, tokens, targets=None):
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.h:
            x = block(x)
        logits = self.lm_head(self.ln_f(x))
        return logits if targets is None else F.cross_entropy(logits.flatten(0, 1), targets.flatten())


class RmsNorm(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(hidden))

    def forward(self, x):
        return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)


class Llama(nn.Module):
    """Root-mean-square norms, grouped keys and values, gated MLP: where transformers is not installed."""

    class Block(nn.Module):
        def __init__(self, hidden, heads, kv_heads, ffn):
            super().__init__()
            self.size = hidden // heads
            self.input_layernorm, self.post_attention_layernorm = RmsNorm(hidden), RmsNorm(hidden)
            self.q_proj = nn.Linear(hidden, hidden, bias=False)
            self.k_proj, self.v_proj = (nn.Linear(hidden, kv_heads * self.size, bias=False) for _ in range(2))
            self.o_proj = nn.Linear(hidden, hidden, bias=False)
            self.gate_proj, self.up_proj = (nn.Linear(hidden, ffn, bias=False) for _ in range(2))
            self.down_proj = nn.Linear(ffn, hidden, bias=False)

        def forward(self, x):
            y = self.input_layernorm(x)
            q, k, v = (p(y).unflatten(-1, (-1, self.size)).transpose(1, 2)
                       for p in (self.q_proj, self.k_proj, self.v_proj))
            k, v = (z.repeat_interleave(q.shape[1] // z.shape[1], 1) for z in (k, v))
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.o_proj(y.transpose(1, 2).flatten(2))
            y = self.post_attention_layernorm(x)
            return x + self.down_proj(F.silu(self.gate_proj(y)) * self.up_proj(y))

    def __init__(self):
        super().__init__()
        self.embed_tokens = nn.Embedding(1000, 256)
        self.layers = nn.Sequential(*[self.Block(256, 8, 4, 688) for _ in range(3)])
        self.norm, self.lm_head = RmsNorm(256), nn.Linear(256, 1000, bias=False)

    def forward(self, input_ids, labels):
        logits = self.lm_head(self.norm(self.layers(self.embed_tokens(input_ids))))
        return {"loss": F.cross_entropy(logits.flatten(0, 1), labels.flatten())}


def llama():
    if not installed("transformers"):
        return Llama()
    import transformers
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(
        hidden_size=256, intermediate_size=688, num_hidden_layers=3, num_attention_heads=8, num_key_value_heads=4,
        vocab_size=1000))


def tokens(rows=2, length=64, vocabulary=512):
    return torch.randint(0, vocabulary, (rows, length), generator=torch.Generator().manual_seed(3))


def counted_flops(loss):
    """PyTorch's own count, of a step that is computed."""
    with FlopCounterMode(display=False) as counter:
        loss().backward()
    return counter.get_total_flops()


class Describe(unittest.TestCase):
    def matches(self, model, listed, loss):
        self.assertEqual(listed.parameters, sum(p.numel() for p in model.parameters()))
        self.assertAlmostEqual(listed.flops / counted_flops(loss), 1, delta=0.01)
        profile = listed.on("H100")
        sizes = {name: list(p.shape) for name, p in model.named_parameters()}
        self.assertEqual({t.name: list(t.shape) for t in profile.tensors}, sizes)
        self.assertEqual(profile.gradient_bytes, sum(p.numel() * p.element_size() for p in model.parameters()))
        self.assertGreater(profile.lone_step_s, 0)
        return profile

    def test_resnet50(self):
        model, images, labels = resnet50(), torch.randn(2, 3, 224, 224), torch.tensor([1, 2])

        def loss(output):
            return F.cross_entropy(output, labels)
        listed = stepcast.torch.operators(model, images, loss=loss, optimizer=lambda p: torch.optim.SGD(
            p, lr=0.1, momentum=0.9))
        self.assertEqual(listed.parameters, 25557032)
        profile = self.matches(model, listed, lambda: loss(model(images)))
        self.assertEqual(len(profile.tensors), 161)
        self.assertEqual(len(profile.layers), 107)  # 53 convolutions, their norms, the classifier
        self.assertEqual(profile.batch_samples, 2)
        self.assertEqual(json.loads(profile.to_json())["bytes_of_state"], 12)
        self.assertEqual(listed.to_pandas()["flops"].sum() if installed("pandas") else listed.flops, listed.flops)

    def test_nano_gpt_counts_its_shared_weight_once_and_last(self):
        model, x = Gpt(), tokens()
        listed = stepcast.torch.operators(model, x, x)
        profile = self.matches(model, listed, lambda: model(x, x))
        self.assertEqual(profile.tensors[-1].name, "wte.weight")  # complete when the lookup's part is added
        self.assertEqual(profile.layers[profile.tensors[-1].layer].name, "wte")

    def test_llama(self):
        model, x = llama(), tokens(vocabulary=1000)
        words = {"input_ids": x, "labels": x}
        listed = stepcast.torch.operators(model, kwargs=words)
        self.matches(model, listed, lambda: getattr(model(**words), "loss", None) if installed("transformers")
                     else model(**words)["loss"])

    def test_groups_of_convolutions_count_their_own_channels_alone(self):
        # PyTorch's counter takes every channel of the weight's gradient, whatever the groups.
        model = nn.Conv2d(32, 64, 3, padding=1, groups=8, bias=False)
        listed = stepcast.torch.operators(model, torch.randn(2, 32, 10, 10, requires_grad=True))
        self.assertEqual(listed.flops, 3 * 2 * 2 * 100 * 64 * 4 * 9)

    def test_recurrent_layers_and_experts_are_counted(self):
        class Recurrent(nn.LSTM):
            def forward(self, x):
                return super().forward(x)[0]
        x = torch.randn(2, 32, 64, requires_grad=True)
        listed = stepcast.torch.operators(Recurrent(64, 128, batch_first=True), x)
        self.assertAlmostEqual(listed.flops / (3 * 2 * 64 * 4 * 128 * (64 + 128)), 1, delta=0.03)
        self.assertEqual(listed.on("H100").layers[0].name, "Recurrent")
        if hasattr(F, "grouped_mm"):
            class Experts(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.weight = nn.Parameter(torch.randn(4, 64, 128, dtype=torch.bfloat16))

                def forward(self, x):
                    return F.grouped_mm(x, self.weight, offs=torch.tensor([8, 8, 20, 32], dtype=torch.int32))
            x = torch.randn(32, 64, dtype=torch.bfloat16, requires_grad=True)
            listed = stepcast.torch.operators(Experts(), x, loss=lambda output: output.square().sum())
            self.assertEqual(listed.flops, 3 * 2 * 32 * 64 * 128)

    def test_optimizers_are_seen_by_their_own_steps(self):
        x = torch.randn(2, 64)
        held = {name: stepcast.torch.describe(nn.Linear(64, 64), x, device="H100", optimizer=optimizer).to_json()
                for name, optimizer in (("sgd", torch.optim.SGD), ("adamw", torch.optim.AdamW),
                                        ("fused", lambda p: torch.optim.AdamW(p, fused=True)))}
        self.assertEqual({name: json.loads(text)["bytes_of_state"] for name, text in held.items()},
                         {"sgd": 8, "adamw": 16, "fused": 16})
        self.refuses("neither values nor a closure", lambda: stepcast.torch.describe(
            nn.Linear(4, 4), torch.randn(2, 4), device="H100", optimizer=torch.optim.LBFGS))

    def test_gradients_come_in_the_order_of_a_real_backward_pass(self):
        model, x, order = Gpt(), tokens(), []
        for name, p in model.named_parameters():
            p.register_post_accumulate_grad_hook(lambda _, name=name: order.append(name))
        model(x, x).backward()
        self.assertEqual([t.name for t in stepcast.torch.describe(model, x, x, device="H100").tensors], order)

    def test_activations_are_what_autograd_holds(self):
        model, x, held = Gpt(), tokens(), {}
        there = {p.untyped_storage().data_ptr() for p in model.parameters()} | {x.untyped_storage().data_ptr()}

        def keep(tensor):
            storage = tensor.untyped_storage()
            if storage.data_ptr() not in there:
                held[storage.data_ptr()] = (storage.nbytes(), tensor)
            return tensor
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            loss = model(x, x)
        self.assertEqual(stepcast.torch.operators(model, x, x).activation_bytes,
                         sum(size for size, _ in held.values()))
        del loss

    def test_a_model_is_left_as_it_was(self):
        model = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Dropout(0.5))
        before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        stepcast.torch.describe(model, torch.randn(4, 8), device="A100")
        self.assertTrue(all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items()))
        self.assertTrue(all(p.grad is None for p in model.parameters()))
        self.assertFalse(any(m._forward_hooks or m._forward_pre_hooks for m in model.modules()))

    def test_no_memory_is_needed(self):
        with torch.device("meta"):
            model = Gpt(vocabulary=50257, length=1024, hidden=4096, heads=32, layers=2).bfloat16()
        listed = stepcast.torch.operators(model, *[torch.empty(8, 1024, dtype=torch.long, device="meta")] * 2)
        self.assertEqual(listed.parameters, sum(p.numel() for p in model.parameters()))
        self.assertGreater(listed.on("H100").lone_step_s, listed.on("B200").lone_step_s)

    def test_checkpoints_compute_again_and_keep_less(self):
        from torch.utils.checkpoint import checkpoint

        class Checkpointed(Gpt):
            def forward(self, tokens, targets):
                x = self.wte(tokens)
                for block in self.h:
                    x = checkpoint(block, x, use_reentrant=False)
                return F.cross_entropy(self.lm_head(x).flatten(0, 1), targets.flatten())
        x = tokens()
        plain, again = (stepcast.torch.operators(model, x, x) for model in (Gpt(), Checkpointed()))
        self.assertGreater(again.flops, 1.15 * plain.flops)
        self.assertLess(again.activation_bytes, plain.activation_bytes / 2)
        self.assertAlmostEqual(again.flops / counted_flops(lambda: Checkpointed()(x, x)), 1, delta=0.01)

    def test_half_precision_under_autocast_is_faster_and_keeps_its_gradients_whole(self):
        model, x = Gpt(hidden=512, heads=8), tokens(16)
        whole, half = (stepcast.torch.describe(model, x, x, device="H100", autocast=t) for t in (None, torch.bfloat16))
        self.assertEqual(half.gradient_bytes, whole.gradient_bytes)
        self.assertLess(sum(l.forward_device_s for l in half.layers if "c_attn" in l.name),
                        sum(l.forward_device_s for l in whole.layers if "c_attn" in l.name))

    def test_dropout_inside_attention_is_part_of_its_kernel(self):
        x = tokens()
        dropped, plain = (stepcast.torch.operators(Gpt(dropout=d), x, x) for d in (0.1, 0.0))
        self.assertEqual(dropped.flops, plain.flops)
        self.assertTrue(any("dropout inside attention" in line for line in dropped.on("H100").assumed))
        self.assertFalse(any("dropout inside attention" in line for line in plain.on("H100").assumed))

    def test_it_is_a_profile_like_any_other(self):
        x = tokens()
        profile = stepcast.torch.describe(Gpt(), x, x, device="H100")
        cluster = stepcast.Cluster(**CLUSTER)
        self.assertGreater(stepcast.predict(profile, cluster, "ddp").iteration_s, profile.lone_step_s * 0.99)
        self.assertGreater(len(stepcast.recommend(profile, cluster)), 3)
        self.assertTrue(stepcast.layouts(profile, cluster, global_batch=64)["best"])
        self.assertTrue(profile.assumed[0].startswith("nothing of this model was measured"))
        self.assertEqual(stepcast.Profile.from_json(profile.to_json()).to_json(), profile.to_json())
        program = os.environ.get("STEPCAST_PROGRAM")
        if not program:
            self.skipTest("STEPCAST_PROGRAM does not name the program to compare with")
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "gpt.json")
            pathlib.Path(file).write_text(profile.to_json(), encoding="utf-8")
            said = subprocess.run([program, "predict", file, "--workers", "16", "--per-node", "8", "--network",
                                   "100 Gb/s", "--inside", "450 GB/s", "--plan", "ddp", "--json"],
                                  stdout=subprocess.PIPE, check=True, encoding="utf-8").stdout
        self.assertEqual(json.loads(said)["iteration_s"],
                         stepcast.predict(stepcast.Profile.from_json(profile.to_json()), cluster, "ddp").iteration_s)

    def test_a_device_may_be_a_file(self):
        device = {"schema": "stepcast.device/1", "name": "a core", "memory_bandwidth": "10 GB/s",
                  "matrix_rate": {"f32": 1e11}, "on_host": True, "provenance": ["test"]}
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "core.json")
            file.write_text(json.dumps(device), encoding="utf-8")
            x = tokens()
            profile = stepcast.torch.describe(Gpt(), x, x, device=file)
        self.assertEqual(profile.device, "")
        self.assertTrue(all(layer.forward_device_s == 0 for layer in profile.layers))
        self.assertGreater(profile.lone_step_s, 1e-3)

    @unittest.skipUnless(installed("torchvision"), "torchvision is not installed: the laboratory's resnet18")
    def test_steps_on_the_laboratorys_core_are_those_that_were_measured(self):
        sys.path.insert(0, str(ROOT / "validation" / "lab"))
        import matrix
        import models as laboratory
        cases = json.loads((ROOT / "validation/cases/lab_pytorch.json").read_text(encoding="utf-8"))["cases"]
        measured = {case["inputs"]["profile"]: case["inputs"]["single_worker_s"] for case in cases
                    if "single_worker_s" in case["inputs"]}
        self.assertEqual(sorted(measured), ["gpt", "mlp", "recommender", "resnet18"])
        for name, seconds in measured.items():
            samples = matrix.BATCHES[name][0]
            inputs, labels = laboratory.inputs(name, samples, 0)
            profile = stepcast.torch.describe(
                laboratory.made(name), inputs, device=ROOT / "profiles/examples/epyc-core.device.json", batch=samples,
                loss=lambda output, labels=labels: laboratory.loss(output, labels),
                optimizer=lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9))
            with self.subTest(name):
                self.assertAlmostEqual(profile.lone_step_s / seconds, 1, delta=0.15)

    def refuses(self, words, call):
        with self.assertRaises(stepcast.InputError) as refused:
            call()
        self.assertIn(words, str(refused.exception))

    def test_inputs_of_another_type_than_the_models_are_refused_as_by_pytorch(self):
        model, half = nn.Linear(64, 10), torch.zeros(8, 64, dtype=torch.float16)
        with self.assertRaises(RuntimeError):
            model(half)
        with self.assertRaisesRegex(stepcast.InputError, "factors of one type.*float16 and torch.float32; give inputs"):
            stepcast.torch.operators(model, half)
        self.assertEqual(stepcast.torch.operators(model, half, autocast=torch.bfloat16).flops,
                         stepcast.torch.operators(model, half.float()).flops)

    def test_what_cannot_be_described_says_why(self):
        model, x = nn.Linear(4, 4), torch.randn(2, 4)
        frozen = nn.Linear(4, 4).requires_grad_(False)

        class Chooses(nn.Linear):
            def forward(self, x):
                return super().forward(x)[x[:, 0] > 0]

        class Branches(nn.Linear):
            def forward(self, x):
                return super().forward(x) if x.sum() > 0 else x
        describe = stepcast.torch.describe
        self.refuses("h900", lambda: describe(model, x, device="h900"))
        self.refuses("a readable file", lambda: describe(model, x, device="no/such.json"))
        self.refuses("a torch.nn.Module", lambda: describe("resnet50", x, device="H100"))
        self.refuses("none that require gradients", lambda: describe(frozen, x, device="H100"))
        self.refuses("returns one number", lambda: describe(model, x, device="H100", loss=lambda output: output))
        self.refuses("loss", lambda: describe(model, x, device="H100", loss="mse"))
        self.refuses("none of them does", lambda: describe(model, x, device="H100", loss=lambda out: x.sum()))
        self.refuses("torch.optim.AdamW", lambda: describe(model, x, device="H100", optimizer="adam"))
        self.refuses("torch.optim.AdamW", lambda: describe(model, x, device="H100", optimizer=list))
        self.refuses("torch.bfloat16", lambda: describe(model, x, device="H100", autocast="bf16"))
        for module in (Chooses(4, 4), Branches(4, 4)):
            self.refuses("stepcast.torch.record", lambda: describe(module, x, device="H100"))
        self.refuses("known are f32", lambda: describe(model.double(), x.double(), device="H100"))
        self.refuses("torch.bfloat16", lambda: describe(model, x, device="H100", autocast=torch.int8))
        self.refuses("a step that runs", lambda: describe(nn.Linear(4, 4), torch.randn(2, 5), device="H100"))  # its own error is the cause


def training_step():
    torch.manual_seed(1)
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(64, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    x, y = torch.randn(256, 64), torch.randint(0, 8, (256,))

    def step():
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
    return model, x, y, step


def recorded(step, *args, **options):
    """The reader refuses steps that something else on the machine has disturbed; then once more, a few times."""
    for left in reversed(range(4)):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # that the profiler's time is left in, where the machine is busy
                return stepcast.torch.record(step, *args, **options)
        except stepcast.InputError as error:
            if not left or "as long as its parts" not in str(error):
                raise


RANK = """
import os, sys
import torch, torch.distributed as dist
from torch import nn
import stepcast.torch
rank = int(sys.argv[1])
dist.init_process_group("gloo", init_method="file://" + sys.argv[2] + "/meet", rank=rank, world_size=2)
model = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(64, 1024), nn.ReLU(), nn.Linear(1024, 64)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x = torch.randn(256, 64)
def step():
    optimizer.zero_grad()
    model(x).sum().backward()
    optimizer.step()
print(len(stepcast.torch.record(step, 3, file=sys.argv[2] + "/run.pt.trace.json.gz").tensors))
dist.destroy_process_group()
"""


class Record(unittest.TestCase):
    def test_a_recorded_step_is_the_described_one(self):
        model, x, y, step = training_step()
        profile = recorded(step, 4)
        described = stepcast.torch.describe(model, x, loss=lambda output: F.cross_entropy(output, y), device="H100")
        self.assertEqual([t.shape for t in profile.tensors], [t.shape for t in described.tensors])
        self.assertEqual(profile.gradient_bytes, described.gradient_bytes)
        self.assertEqual(len(profile.layers), len(described.layers))
        self.assertEqual(profile.batch_samples, 256)
        self.assertGreater(len(profile.step_times_s), 1)
        cluster = stepcast.Cluster(workers=4, network="10GbE")
        self.assertGreater(stepcast.predict(profile, cluster, "ddp").iteration_s, 0)

    def test_the_file_is_kept_where_it_was_asked_for(self):
        _, _, _, step = training_step()
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "run.pt.trace.json.gz")
            profile = recorded(step, 3, warmup=1, file=file)
            self.assertEqual([path.name for path in pathlib.Path(folder).iterdir()], [file.name])
            self.assertEqual([t.name for t in stepcast.read(file).tensors], [t.name for t in profile.tensors])

    def test_nothing_is_lost_where_a_step_or_a_file_is_wrong(self):
        _, _, _, step = training_step()
        record = stepcast.torch.record

        def refuses(words, call):
            with self.assertRaises(stepcast.InputError) as refused:
                call()
            self.assertIn(words, str(refused.exception))

        refuses("no other profiler", lambda: record(lambda: record(step, 1, warmup=0), 1, warmup=0))
        with tempfile.TemporaryDirectory() as folder:
            made = os.path.join(folder, "made.json")
            os.mkdir(made)
            refuses("a folder", lambda: record(step, 1, warmup=0, file=made))
            count = []

            def fails():
                count.append(step())
                if len(count) == 4:
                    raise ValueError("at a profiled step")

            with self.assertRaises(ValueError):
                record(fails, 2, warmup=0, file=os.path.join(folder, "run.json"))
            self.assertEqual(os.listdir(folder), ["made.json"])
            refuses("a number of samples", lambda: record(step, batch=-1))

    def test_steps_are_counted(self):
        calls = []
        _, _, _, step = training_step()
        recorded(lambda: (calls.append(1), step()), 3, warmup=2)
        self.assertEqual(len(calls) % (2 + 3 + 1 + 3), 0)
        self.assertLessEqual(len(calls), 4 * (2 + 3 + 1 + 3))

    def test_a_step_that_does_not_train_says_so(self):
        model, x, _, step = training_step()

        def inference():
            with torch.no_grad():
                model(x)
        for wrong in (inference, lambda: None):
            with self.assertRaises(stepcast.InputError) as refused:
                stepcast.torch.record(wrong, 3)
            self.assertNotIn("\n", str(refused.exception))
        for call, words in ((lambda: stepcast.torch.record("step"), "a function that trains one step"),
                            (lambda: stepcast.torch.record(step, 0), "a whole number from 1"),
                            (lambda: stepcast.torch.record(step, file="run.txt"), ".json.gz"),
                            (lambda: stepcast.torch.record(step, file=3), "a path"),
                            (lambda: stepcast.torch.record(step, file="no/such/run.json"), "a folder that exists")):
            with self.assertRaises(stepcast.InputError) as refused:
                call()
            self.assertIn(words, str(refused.exception))

    def test_every_rank_writes_a_file_of_its_own(self):
        with tempfile.TemporaryDirectory() as folder:
            ranks = [subprocess.Popen([sys.executable, "-W", "ignore", "-c", RANK, str(rank), folder],
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8",
                                      env={**os.environ, "OMP_NUM_THREADS": "1"}) for rank in range(2)]
            said = [rank.communicate(timeout=300)[0] for rank in ranks]
            self.assertEqual([rank.returncode for rank in ranks], [0, 0], said)
            self.assertEqual([text.split()[-1] for text in said], ["4", "4"])
            files = sorted(path for path in pathlib.Path(folder).iterdir() if path.name.startswith("run"))
            self.assertEqual([path.name for path in files], [f"run-rank{rank}.pt.trace.json.gz" for rank in range(2)])
            together = stepcast.read(*files)
            self.assertEqual(len(together.tensors), 4)
            self.assertEqual(together.check.as_traced.plan.split("(")[0], "ddp")


class Readme(unittest.TestCase):
    def test_its_examples_run(self):
        text = (ROOT / "model/python/README.md").read_text(encoding="utf-8")
        section = re.search(r"(?ms)^## From a PyTorch script$(.*?)^## ", text).group(1)
        marked = re.findall(r"(?ms)^(?:<!-- not run: ([^\n]*) -->\n)?^```python\n(.*?)^```", section)
        blocks = [code for needs, code in marked if "Lightning" not in needs]
        self.assertGreaterEqual(len(blocks), 2)
        model, x, y, step = training_step()
        names = {"model": model, "inputs": x, "labels": y, "step": step}
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            os.chdir(folder)
            try:
                for block in blocks:
                    for left in reversed(range(4)):  # as `recorded`
                        try:
                            exec(compile(block, "README.md", "exec"), names)
                            break
                        except stepcast.InputError as error:
                            if not left or "as long as its parts" not in str(error):
                                raise
            finally:
                os.chdir(ROOT)


if __name__ == "__main__":
    unittest.main()
