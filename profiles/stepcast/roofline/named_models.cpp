// The table of public models: shapes and parameters as their authors or their published configurations say.
#include <stepcast/roofline/named_models.hpp>

#include <algorithm>
#include <array>
#include <cctype>
#include <string>

namespace stepcast {
namespace {

constexpr auto table = std::to_array<NamedModel>({
    {"bert-base", "bert:hidden=768,layers=12,heads=12,vocab=30522,seq=512", 1.101e8,
     "Devlin et al. 2019 with the heads of pre-training; google-bert/bert-base-uncased on Hugging Face"},
    {"bert-large", "bert:hidden=1024,layers=24,heads=16,vocab=30522,seq=512", 3.362e8,
     "Devlin et al. 2019 with the heads of pre-training; google-bert/bert-large-uncased on Hugging Face"},
    {"gpt2", "gpt:hidden=768,layers=12,heads=12,vocab=50257,seq=1024,dtype=bf16,attention=flash,causal=yes", 1.244e8,
     "Radford et al. 2019 and openai-community/gpt2* on Hugging Face"},
    {"gpt2-medium", "gpt:hidden=1024,layers=24,heads=16,vocab=50257,seq=1024,dtype=bf16,attention=flash,causal=yes",
     3.548e8, "Radford et al. 2019 and openai-community/gpt2* on Hugging Face"},
    {"gpt2-large", "gpt:hidden=1280,layers=36,heads=20,vocab=50257,seq=1024,dtype=bf16,attention=flash,causal=yes",
     7.74e8, "Radford et al. 2019 and openai-community/gpt2* on Hugging Face"},
    {"gpt2-xl", "gpt:hidden=1600,layers=48,heads=25,vocab=50257,seq=1024,dtype=bf16,attention=flash,causal=yes",
     1.5576e9, "Radford et al. 2019 and openai-community/gpt2* on Hugging Face"},
    {"gpt3-175b", "gpt:hidden=12288,layers=96,heads=96,vocab=50257,seq=2048,dtype=bf16,attention=flash,causal=yes",
     1.746e11, "Brown et al. 2020 (arXiv 2005.14165), table 2.1 and appendix D"},
    {"llama2-7b", "llama:hidden=4096,layers=32,heads=32,ffn=11008,vocab=32000,seq=4096,attention=flash,causal=yes",
     6.738e9, "Touvron et al. 2023 (arXiv 2307.09288), table 1"},
    {"llama2-13b", "llama:hidden=5120,layers=40,heads=40,ffn=13824,vocab=32000,seq=4096,attention=flash,causal=yes",
     1.3016e10, "Touvron et al. 2023 (arXiv 2307.09288), table 1"},
    {"llama2-70b",
     "llama:hidden=8192,layers=80,heads=64,kv_heads=8,ffn=28672,vocab=32000,seq=4096,attention=flash,causal=yes",
     6.8977e10, "Touvron et al. 2023 (arXiv 2307.09288), table 1"},
    {"llama3-8b",
     "llama:hidden=4096,layers=32,heads=32,kv_heads=8,ffn=14336,vocab=128256,seq=8192,attention=flash,causal=yes",
     8.03e9, "Grattafiori et al. 2024 (arXiv 2407.21783), table 3"},
    {"llama3-70b",
     "llama:hidden=8192,layers=80,heads=64,kv_heads=8,ffn=28672,vocab=128256,seq=8192,attention=flash,causal=yes",
     7.0554e10, "Grattafiori et al. 2024 (arXiv 2407.21783), table 3"},
    {"llama3-405b",
     "llama:hidden=16384,layers=126,heads=128,kv_heads=8,ffn=53248,vocab=128256,seq=8192,attention=flash,causal=yes",
     4.05853e11, "Grattafiori et al. 2024 (arXiv 2407.21783), table 3"},
    {"mistral-7b",
     "llama:hidden=4096,layers=32,heads=32,kv_heads=8,ffn=14336,vocab=32000,seq=4096,attention=flash,causal=yes",
     7.242e9, "Jiang et al. 2023 (arXiv 2310.06825), table 1"},
    {"mixtral-8x7b",
     "llama:hidden=4096,layers=32,heads=32,kv_heads=8,ffn=14336,vocab=32000,seq=4096,experts=8,topk=2,attention=flash,"
     "causal=yes",
     4.6703e10, "Jiang et al. 2024 (arXiv 2401.04088), table 1"},
    {"mixtral-8x22b",
     "llama:hidden=6144,layers=56,heads=48,kv_heads=8,ffn=16384,vocab=32768,seq=4096,experts=8,topk=2,attention=flash,"
     "causal=yes",
     1.4063e11, "mistralai/Mixtral-8x22B-v0.1 on Hugging Face"},
    {"mistral-nemo-12b",
     "llama:hidden=5120,layers=40,heads=32,kv_heads=8,head=128,ffn=14336,vocab=131072,seq=4096,attention=flash,"
     "causal=yes",
     1.2248e10, "mistralai/Mistral-Nemo-Base-2407 on Hugging Face"},
    {"llama3.2-1b",
     "llama:hidden=2048,layers=16,heads=32,kv_heads=8,ffn=8192,vocab=128256,seq=8192,tied=yes,attention=flash,"
     "causal=yes",
     1.2358e9, "meta-llama/Llama-3.2-1B on Hugging Face"},
    {"llama3.2-3b",
     "llama:hidden=3072,layers=28,heads=24,kv_heads=8,ffn=8192,vocab=128256,seq=8192,tied=yes,attention=flash,"
     "causal=yes",
     3.2128e9, "meta-llama/Llama-3.2-3B on Hugging Face"},
    {"qwen2.5-7b",
     "llama:hidden=3584,layers=28,heads=28,kv_heads=4,ffn=18944,vocab=152064,seq=4096,attention=flash,causal=yes",
     7.616e9, "Qwen2.5 technical report (arXiv 2412.15115), table 1"},
    {"qwen2.5-14b",
     "llama:hidden=5120,layers=48,heads=40,kv_heads=8,ffn=13824,vocab=152064,seq=4096,attention=flash,causal=yes",
     1.477e10, "Qwen2.5 technical report (arXiv 2412.15115), table 1"},
    {"qwen2.5-32b",
     "llama:hidden=5120,layers=64,heads=40,kv_heads=8,ffn=27648,vocab=152064,seq=4096,attention=flash,causal=yes",
     3.2764e10, "Qwen2.5 technical report (arXiv 2412.15115), table 1"},
    {"qwen2.5-72b",
     "llama:hidden=8192,layers=80,heads=64,kv_heads=8,ffn=29568,vocab=152064,seq=4096,attention=flash,causal=yes",
     7.2706e10, "Qwen2.5 technical report (arXiv 2412.15115), table 1"},
    {"qwen3-8b",
     "llama:hidden=4096,layers=36,heads=32,kv_heads=8,ffn=12288,vocab=151936,seq=4096,qk_norm=yes,attention=flash,"
     "causal=yes",
     8.1907e9, "Qwen3 technical report (arXiv 2505.09388), table 1"},
    {"qwen3-32b",
     "llama:hidden=5120,layers=64,heads=64,kv_heads=8,head=128,ffn=25600,vocab=151936,seq=4096,qk_norm=yes,"
     "attention=flash,causal=yes",
     3.2762e10, "Qwen3 technical report (arXiv 2505.09388), table 1"},
    {"qwen3-30b-a3b",
     "llama:hidden=2048,layers=48,heads=32,kv_heads=4,head=128,ffn=768,experts=128,topk=8,vocab=151936,seq=4096,"
     "qk_norm=yes,attention=flash,causal=yes",
     3.0532e10, "Qwen3 technical report (arXiv 2505.09388), table 2"},
    {"deepseek-v2-lite",
     "llama:hidden=2048,layers=27,heads=16,head=128,kv_rank=512,rope=64,ffn=1408,experts=64,topk=6,shared=2,dense=1,"
     "dense_ffn=10944,vocab=102400,seq=4096,attention=flash,causal=yes",
     1.5706e10, "DeepSeek-V2 (arXiv 2405.04434), appendix B, and deepseek-ai/DeepSeek-V2-Lite on Hugging Face"},
    {"deepseek-v2",
     "llama:hidden=5120,layers=60,heads=128,head=128,kv_rank=512,q_rank=1536,rope=64,ffn=1536,experts=160,topk=6,"
     "shared=2,dense=1,dense_ffn=12288,vocab=102400,seq=4096,attention=flash,causal=yes",
     2.357e11, "DeepSeek-V2 (arXiv 2405.04434), section 3.1.2"},
    {"deepseek-v3",
     "llama:hidden=7168,layers=61,heads=128,head=128,kv_rank=512,q_rank=1536,rope=64,ffn=2048,experts=256,topk=8,"
     "shared=1,dense=3,dense_ffn=18432,vocab=129280,seq=4096,attention=flash,causal=yes",
     6.7103e11, "DeepSeek-V3 (arXiv 2412.19437), section 4.2, without its multi-token prediction"},
    {"qwen3-235b-a22b",
     "llama:hidden=4096,layers=94,heads=64,kv_heads=4,head=128,ffn=1536,experts=128,topk=8,vocab=151936,seq=4096,"
     "qk_norm=yes,attention=flash,causal=yes",
     2.35094e11, "Qwen3 technical report (arXiv 2505.09388), table 2"},
    {"gpt-oss-20b",
     "llama:hidden=2880,layers=24,heads=64,kv_heads=8,head=64,ffn=2880,experts=32,topk=4,vocab=201088,seq=4096,"
     "expert_bias=yes,clamp=yes,attention=flash,causal=yes,window=128,full_every=2",
     2.0905e10, "gpt-oss model card (arXiv 2508.10925), table 1, without biases"},
    {"gpt-oss-120b",
     "llama:hidden=2880,layers=36,heads=64,kv_heads=8,head=64,ffn=2880,experts=128,topk=4,vocab=201088,seq=4096,"
     "expert_bias=yes,clamp=yes,attention=flash,causal=yes,window=128,full_every=2",
     1.1678e11, "gpt-oss model card (arXiv 2508.10925), table 1, without biases"},
    {"gemma3-12b",
     "llama:hidden=3840,layers=48,heads=16,kv_heads=8,head=256,ffn=15360,vocab=262208,seq=4096,tied=yes,"
     "qk_norm=yes,attention=flash,causal=yes,window=1024,full_every=6",
     1.1766e10, "Gemma 3 technical report (arXiv 2503.19786), table 1, and google/gemma-3-12b-pt on Hugging Face"},
    {"gemma3-27b",
     "llama:hidden=5376,layers=62,heads=32,kv_heads=16,head=128,ffn=21504,vocab=262208,seq=4096,tied=yes,"
     "qk_norm=yes,attention=flash,causal=yes,window=1024,full_every=6",
     2.7009e10, "Gemma 3 technical report (arXiv 2503.19786), table 1, and google/gemma-3-27b-pt on Hugging Face"},
});

}  // namespace

std::span<const NamedModel> named_models() { return table; }

namespace {

/// "meta-llama/Llama-3.1-8B" and "llama3-8b" are one: without owner, capitals and what joins words; Llama 3.1 has the
/// shape of Llama 3.
std::string key_of(std::string_view name) {
  std::string key;
  for (const char c : name.substr(name.rfind('/') + 1))
    if (c != '-' && c != ' ') key += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  constexpr std::string_view later = "llama3.1";
  if (key.starts_with(later)) key.replace(0, later.size(), "llama3");
  return key;
}

}  // namespace

const NamedModel* named_model(std::string_view name) {
  const auto found = std::ranges::find(table, key_of(name), [](const NamedModel& m) { return key_of(m.name); });
  return found == table.end() ? nullptr : &*found;
}

}  // namespace stepcast
