"""The models that are trained, in plain torch: ResNet-50, BERT-Base, GPT-2 small and medium, ViT-B/16.

torchvision is used for ResNet-50 where it is installed; the own definition has the same tensors. `tiny` keeps the kind of
model and shrinks every dimension.
"""
import torch
from torch import nn

SEED = 1234


def attention(q, k, v, causal):
    fused = getattr(nn.functional, "scaled_dot_product_attention", None)
    if fused is not None:
        return fused(q, k, v, is_causal=causal)
    weights = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
    if causal:
        length = q.shape[-2]
        weights = weights.masked_fill(torch.ones(length, length, dtype=torch.bool, device=q.device).triu(1), float("-inf"))
    return torch.softmax(weights, -1) @ v


class Block(nn.Module):
    """A transformer layer: pre-norm (GPT-2, ViT) or post-norm (BERT)."""

    def __init__(self, hidden, heads, causal=False, post_norm=False):
        super().__init__()
        self.heads, self.causal, self.post_norm = heads, causal, post_norm
        self.norm1, self.norm2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.qkv, self.project = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
        self.widen, self.narrow = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)

    def mix(self, x):
        batch, length, hidden = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, hidden // self.heads).permute(2, 0, 3, 1, 4)
        return self.project(attention(q, k, v, self.causal).transpose(1, 2).reshape(batch, length, hidden))

    def feed(self, x):
        return self.narrow(nn.functional.gelu(self.widen(x)))

    def forward(self, x):
        if self.post_norm:
            x = self.norm1(x + self.mix(x))
            return self.norm2(x + self.feed(x))
        x = x + self.mix(self.norm1(x))
        return x + self.feed(self.norm2(x))


class LanguageModel(nn.Module):
    """BERT (post-norm, masked words) or GPT-2 (pre-norm, causal); the output shares the embedding's weights."""

    def __init__(self, vocabulary, length, hidden, layers, heads, causal):
        super().__init__()
        self.words, self.positions = nn.Embedding(vocabulary, hidden), nn.Embedding(length, hidden)
        self.first_norm = nn.Identity() if causal else nn.LayerNorm(hidden)
        self.blocks = nn.ModuleList(Block(hidden, heads, causal, post_norm=not causal) for _ in range(layers))
        self.last_norm = nn.LayerNorm(hidden) if causal else nn.Identity()
        self.head = nn.Linear(hidden, vocabulary, bias=False)
        self.head.weight = self.words.weight

    def forward(self, tokens):
        x = self.words(tokens) + self.positions(torch.arange(tokens.shape[1], device=tokens.device))
        x = self.first_norm(x)
        for block in self.blocks:
            x = block(x)
        return self.head(self.last_norm(x))


class VisionTransformer(nn.Module):
    def __init__(self, image, patch, hidden, layers, heads, classes):
        super().__init__()
        self.patches = nn.Conv2d(3, hidden, patch, patch)
        self.token = nn.Parameter(torch.zeros(1, 1, hidden))
        self.positions = nn.Parameter(torch.randn(1, (image // patch) ** 2 + 1, hidden) * 0.02)
        self.blocks = nn.Sequential(*(Block(hidden, heads) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(hidden), nn.Linear(hidden, classes)

    def forward(self, images):
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], 1) + self.positions
        return self.head(self.norm(self.blocks(x))[:, 0])


class Bottleneck(nn.Module):
    def __init__(self, channels, width, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(channels, width, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
        self.conv3, self.bn3 = nn.Conv2d(width, 4 * width, 1, bias=False), nn.BatchNorm2d(4 * width)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = None
        if stride != 1 or channels != 4 * width:
            self.downsample = nn.Sequential(nn.Conv2d(channels, 4 * width, 1, stride, bias=False),
                                            nn.BatchNorm2d(4 * width))

    def forward(self, x):
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.relu(self.bn2(self.conv2(y)))
        return self.relu(self.bn3(self.conv3(y)) + (x if self.downsample is None else self.downsample(x)))


class ResNet(nn.Module):
    def __init__(self, blocks=(3, 4, 6, 3), width=64, classes=1000):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width)
        self.relu, self.pool = nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)
        channels = width
        for stage, count in enumerate(blocks):
            inner = width * 2 ** stage
            layers = []
            for i in range(count):
                layers.append(Bottleneck(channels, inner, 2 if stage > 0 and i == 0 else 1))
                channels = 4 * inner
            setattr(self, f"layer{stage + 1}", nn.Sequential(*layers))
        self.fc = nn.Linear(channels, classes)

    def forward(self, x):
        x = self.pool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(x.mean((2, 3)))


def resnet50(tiny):
    if tiny:
        return ResNet((1, 1, 1, 1), 8, 10)
    try:
        import torchvision
        return torchvision.models.resnet50(weights=None)
    except ImportError:
        return ResNet()


LANGUAGE = {"bert_base": (30522, 128, 768, 12, 12, False), "gpt2_small": (50257, 512, 768, 12, 12, True),
            "gpt2_medium": (50257, 512, 1024, 24, 16, True)}
TINY_LANGUAGE = (200, 16, 32, 2, 2)


def model_of(name, tiny=False):
    torch.manual_seed(SEED)
    if name == "resnet50":
        return resnet50(tiny)
    if name == "vit_b":
        return VisionTransformer(32, 8, 32, 2, 2, 10) if tiny else VisionTransformer(224, 16, 768, 12, 12, 1000)
    shape = LANGUAGE[name]
    return LanguageModel(*(TINY_LANGUAGE + shape[5:] if tiny else shape))


def batch_of(name, samples, tiny=False):
    """Inputs and labels in the host's memory."""
    if name in LANGUAGE:
        vocabulary, length = (TINY_LANGUAGE if tiny else LANGUAGE[name])[:2]
        tokens = torch.randint(0, vocabulary, (samples, length))
        return tokens, tokens.roll(-1, 1)
    size, classes = (32, 10) if tiny else (224, 1000)
    return torch.randn(samples, 3, size, size), torch.randint(0, classes, (samples,))


def loss_of(output, labels):
    return nn.functional.cross_entropy(output.reshape(-1, output.shape[-1]).float(), labels.reshape(-1))


def optimizer_of(name, parameters, fused, capturable):
    """SGD with momentum for ResNet-50, AdamW for the others; `fused`: one kernel, else one per tensor and operation."""
    how = {"fused": True} if fused else {"foreach": False}
    if name == "resnet50":
        return torch.optim.SGD(parameters, lr=0.01, momentum=0.9, **how)
    return torch.optim.AdamW(parameters, lr=1e-4, **how, **({"capturable": True} if capturable else {}))
