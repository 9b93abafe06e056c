// stepcast list: what this program knows: strategies, layouts, collectives, formats, clusters, devices, ...
#include "command.hpp"
#include "files.hpp"
#include "input.hpp"
#include "values.hpp"

#include <stepcast/base/embedded.hpp>
#include <stepcast/base/spec_reader.hpp>
#include <stepcast/base/text.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/documents/reading.hpp>
#include <stepcast/layout/layout.hpp>
#include <stepcast/layout/tensor_scheme.hpp>
#include <stepcast/pipeline/pipeline.hpp>
#include <stepcast/plan/strategy.hpp>
#include <stepcast/report/text/table.hpp>
#include <stepcast/roofline/description.hpp>
#include <stepcast/roofline/device.hpp>
#include <stepcast/roofline/named_models.hpp>
#include <stepcast/roofline/shipped_models.hpp>
#include <stepcast/whatif/whatif.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <ostream>

namespace stepcast::cli {
namespace {

using Json = nlohmann::ordered_json;

/// One line of a list: shown as name and summary, with `facts` below when asked for more.
struct Item {
  std::string name, summary;
  std::vector<std::pair<std::string, std::string>> facts;
};

std::string option_text(const OptionSpec& option) {
  const auto text = [&](double value) { return option_value_text(option, value, option.patterns); };
  std::string out(option.name);
  if (!option.required) out += " = " + text(option.standard);
  if (option.kind != OptionKind::choice && option.kind != OptionKind::layers)
    out += " (" + text(option.low) + " to " + text(option.high) + ")";
  return out + (option.tuned ? ", tuned: " : option.required ? ", required: " : ": ") + std::string(option.summary);
}

std::vector<Item> strategy_items() {
  std::vector<Item> items;
  for (const Strategy& s : strategies()) {
    Item item{std::string(s.name), std::string(s.title), {{"what", std::string(s.summary)}}};
    item.facts.emplace_back("reference", s.reference);
    item.facts.emplace_back("fidelity", name_of(s.fidelity));
    for (const std::string_view need : requirements_of({&s})) item.facts.emplace_back("needs", need);
    for (const OptionSpec& option : s.options) item.facts.emplace_back("option", option_text(option));
    if (!s.caution.empty()) item.facts.emplace_back("caution", s.caution);
    items.push_back(std::move(item));
  }
  return items;
}

std::vector<Item> modifier_items() {
  std::vector<Item> items;
  for (const Modifier& m : modifiers()) {
    Item item{std::string(m.name), std::string(m.title), {{"what", std::string(m.summary)}}};
    item.facts.emplace_back("reference", m.reference);
    item.facts.emplace_back("fidelity", name_of(m.fidelity));
    if (!m.framework.empty()) item.facts.emplace_back("needs", m.framework);
    if (!m.usual_base.empty()) item.facts.emplace_back("usual base", m.usual_base);
    for (const OptionSpec& option : m.options) item.facts.emplace_back("option", option_text(option));
    if (!m.caution.empty()) item.facts.emplace_back("caution", m.caution);
    items.push_back(std::move(item));
  }
  return items;
}

std::vector<Item> whatif_items() {
  std::vector<Item> items;
  for (const WhatIf& w : whatifs()) {
    Item item{std::string(w.name), std::string(w.title), {{"what", std::string(w.summary)}}};
    item.facts.emplace_back("reference", w.reference);
    for (const OptionSpec& option : w.options) item.facts.emplace_back("option", option_text(option));
    if (!w.caution.empty()) item.facts.emplace_back("caution", w.caution);
    items.push_back(std::move(item));
  }
  return items;
}

std::vector<Item> collective_items() {
  std::vector<Item> items;
  for (const CollectiveAlgorithm& a : collective_algorithms())
    items.push_back({std::string(a.name), std::string(a.summary), {{"reference", std::string(a.reference)}}});
  return items;
}

std::vector<Item> format_items() {
  std::vector<Item> items;
  for (const Format& f : formats())
    items.push_back({std::string(f.name), std::string(f.summary), {{"reference", std::string(f.reference)}}});
  return items;
}

std::vector<Item> cluster_items() {
  std::vector<Item> items;
  for (const Cluster& c : shipped_clusters()) {
    std::int64_t inside = 0, between = 0;  // the most devices that tables of collectives were measured on
    for (const MeasuredCollective& table : c.tables) {
      const bool one = table.nodes == 1 || (table.nodes == 0 && table.workers <= c.devices_per_node);
      std::int64_t& most = one ? inside : between;
      most = std::max(most, table.workers);
    }
    std::string summary = std::to_string(c.nodes) + " x " + std::to_string(c.devices_per_node) + " " +
                          (c.device.empty() ? std::string("devices") : c.device) + ", " + text_of(c.network.bandwidth);
    if (c.nics_per_node > 1) summary += " a card";
    if (c.all_reduce == "nccl" && between == 0) summary += inside == 0 ? ", nominal" : ", nominal between machines";
    if (std::max(inside, between) > 0) summary += ", measured on up to " + std::to_string(std::max(inside, between));
    Item item{c.name, summary, {}};
    for (const std::string& source : c.provenance) item.facts.emplace_back("from", source);
    items.push_back(std::move(item));
  }
  return items;
}

std::vector<Item> model_items() {
  std::vector<Item> items;
  for (const ModelDescription& m : shipped_models()) {
    Bytes size;
    for (const Tensor& tensor : m.parameters) size += tensor.size;
    items.push_back({m.name,
                     std::to_string(m.parameters.size()) + " parameter tensors, " + text_of(size),
                     {{"from", m.provenance}}});
  }
  const std::string shape = "described by hidden, layers, heads, seq; unless given ";
  const std::string more =
      ", kv_heads=heads, head=hidden/heads, experts=0, topk=2, attention=standard (or flash, flash1, flash2, flash3, "
      "cudnn, with causal=yes, window=0 tokens before a query, full_every=0 layers one of which sees all, documents=0 "
      "tokens of the packed document that a token is in on average, "
      "to which attention keeps), ";
  const std::string newer =
      "; shared=0 experts beside topk, dense=0 layers without experts in front (of dense_ffn=ffn), expert_bias=no "
      "(products of experts that add one), clamp=no (a gate whose inputs are limited, GPT-OSS's)";
  const std::string latent =
      ", qk_norm=no (queries and keys of every head are normed: Qwen3, Gemma 3), kv_rank=0 (latent attention, with "
      "q_rank=0, rope=64, v_head=head)";
  const std::string gradients =
      ", linear=dtype (f8, or f4: 8-bit linear layers, or NVFP4), gradients=dtype (f32 for bf16, but not of "
      "DeepSpeed's kernels), optimizer=adam (or "
      "adam8bit, adafactor, lion, muon, sgd), kernels=megatron (or PyTorch's: compiled, eager, deepspeed), "
      "loss=kernels (of the loss alone), loss_chunks=1 (parts of a sequence whose logits are there at a time), "
      "launch=async (or graphs: all passes of a step at once; blocking: CUDA_LAUNCH_BLOCKING=1), accumulation=fused "
      "(or apart: gradients of micro-batches are added by kernels of their own, as PyTorch's always are)";
  items.push_back(
      {"gpt:",
       shape + "vocab=51200, ffn=4*hidden" + more + "dropout=0.1, dtype=f16" + gradients + ", tied=yes" + newer,
       {}});
  items.push_back({"llama:",
                   shape + "vocab=32000, ffn=8/3*hidden" + more + "dropout=0, dtype=bf16" + gradients + ", tied=no" +
                       newer + latent,
                   {}});
  items.push_back(
      {"bert:", shape + "vocab=30528, ffn=4*hidden" + more + "dropout=0.1, dtype=f16" + gradients + newer, {}});
  for (const NamedModel& m : named_models())
    items.push_back(
        {std::string(m.name),
         fixed(m.parameters / 1e9, m.parameters < 1e9 ? 2 : 1) + " billion parameters: " + std::string(m.description),
         {{"from", std::string(m.source)}}});
  std::string networks;
  for (const std::string& family : model_families())
    if (is_convolutional(family) && family != "resnet50") add_to_list(networks, family + ":");
  items.push_back({"resnet50:", "described; unless given image=224, classes=1000, dtype=tf32; so are " + networks, {}});
  return items;
}

std::vector<Item> layout_items() {
  std::vector<Item> items;
  for (const LayoutField& f : layout_fields()) {
    const auto end = f.summary.rfind("; ");
    items.push_back({std::string(f.name),
                     std::string(f.summary.substr(0, end)),
                     {{"default", std::string(f.summary.substr(end + 2))}}});
  }
  return items;
}

template <class Record>
std::vector<Item> items_of(std::span<const Record> family) {
  std::vector<Item> items;
  for (const Record& r : family)
    items.push_back({std::string(r.name),
                     std::string(r.title),
                     {{"what", std::string(r.summary)}, {"reference", std::string(r.reference)}}});
  return items;
}
std::vector<Item> schedule_items() { return items_of(pipeline_schedules()); }
std::vector<Item> scheme_items() { return items_of(tensor_schemes()); }

/// What `recommend` searches.
std::vector<Item> search_items() {
  return {
      {"layouts",
       "Degrees, schedule, micro-batch, ZeRO and recomputation: recommend --layouts",
       {{"what", "all layouts of a space by bounds, with a proof, and the frontier of memory and time (--frontier)"},
        {"predicted by", "predict --plan 'layout(tp=8, pp=4)/ddp'"}}},
      {"TensorOpt",
       "Each unit its own degrees, ZeRO stage and recomputation: recommend --unit-frontier",
       {{"what",
         "the frontier of memory and time, over numbers of devices with --over workers=4,8,16; the fastest that fits, "
         "the fewest devices (--objective devices), the least memory"},
        {"reference", "Cai et al., TPDS 33(8), 2022, arXiv 2004.10856"},
        {"predicted by", "predict --plan 'layout(units=tp4+16*tp1-zero3-full)/ddp'"}}},
      {"FusionLLM",
       "Pipelines over unequal devices and links: recommend --devices",
       {{"what", "OP-Fence places stages by clusters of like links; AdaTopK (--adatopk) compresses slow links most"},
        {"reference", "Tang et al., arXiv 2410.12707"},
        {"predicted by", "predict --devices FILE --plan 'placement(devices=0+1, units=4+3, adatopk=50)'"}}},
      {"options",
       "Options of every strategy, on a grid or by a Gaussian process: recommend [--search bayesian]",
       {{"what", "the tuned options of list strategies --long, and of what can be behind a strategy"}}}};
}

/// How the memory of servers holds a data set that is read in a new order every epoch.
std::vector<Item> cache_items() {
  const std::string paper = "Mohan et al., VLDB 14(5), 2021 (DS-Analyzer, CoorDL)";
  return {{"lru",
           "The page cache: what was read last stays",
           {{"what", "of a share x of the data set x + (1 - x) ln(1 - x) hit, less than x: most is evicted unread"},
            {"reference", paper}}},
          {"never-evict",
           "What was read first stays (MinIO)",
           {{"what", "the whole cached share hits in every epoch"}, {"reference", paper}}},
          {"partitioned",
           "Servers share their caches, each holding another part of the data set",
           {{"what", "what another server holds comes over the network, of --input's file; the rest from storage"},
            {"reference", paper}}}};
}

std::vector<Item> device_items() {
  std::vector<Item> items;
  const std::vector<std::string> names = shipped_device_names();
  for (std::size_t i = 0; i < names.size(); ++i) {
    const Device& d = shipped_devices()[i];
    std::string rates;
    for (std::size_t t = 0; t < d.matrix_rate.size(); ++t)
      if (d.matrix_rate[t] > 0)
        add_to_list(rates, std::string(name_of(static_cast<DataType>(t))) + " " + fixed(d.matrix_rate[t] * 1e-12, 1));
    Item item{names[i], d.name + ", " + text_of(d.memory) + ", matrix products in Tflop/s: " + rates, {}};
    for (const std::string& source : d.provenance) item.facts.emplace_back("from", source);
    items.push_back(std::move(item));
  }
  return items;
}

/// What --json writes, by the name that stands in its "schema".
std::vector<Item> schema_items() {
  std::vector<Item> items;
  for (const EmbeddedFile& file : shipped_schema_texts()) {
    const Json schema = Json::parse(file.text);
    std::string fields;
    for (const auto& [name, value] : schema["properties"].items()) add_to_list(fields, name);
    items.push_back(
        {schema["title"], schema["description"], {{"fields", fields}, {"document", std::string(file.text)}}});
  }
  return items;
}

struct Topic {
  std::string_view name;
  std::vector<Item> (*items)();
};
constexpr Topic topics[] = {
    {"strategies", strategy_items},    {"modifiers", modifier_items}, {"whatifs", whatif_items},
    {"collectives", collective_items}, {"formats", format_items},     {"clusters", cluster_items},
    {"models", model_items},           {"layouts", layout_items},     {"schedules", schedule_items},
    {"schemes", scheme_items},         {"devices", device_items},     {"searches", search_items},
    {"caches", cache_items},           {"schemas", schema_items}};
constexpr const char* topic_names =
    "strategies, modifiers, whatifs, collectives, formats, clusters, models, layouts, schedules, schemes, devices, "
    "searches, caches or schemas";

const Topic& topic_named(const std::string& name) {
  for (const Topic& topic : topics)
    if (topic.name == name) return topic;
  throw InputError("list", topic_names, in_quotes(name), did_you_mean(name, list_topics()));
}

void write_json(std::ostream& out, std::string_view topic, const std::vector<Item>& items) {
  Json json = {{"schema", "stepcast.list/1"}, {"topic", topic}, {"items", Json::array()}};
  for (const Item& item : items) {
    Json entry = {{"name", item.name}, {"summary", item.summary}};
    Json options = Json::array();
    for (const auto& [key, value] : item.facts) {
      if (key == "option") options.push_back(value);
      else if (!entry.contains(key)) entry[key] = value;
      else entry[key] = entry[key].get<std::string>() + "; " + value;
    }
    if (topic == "strategies" || topic == "modifiers") entry["options"] = std::move(options);
    json["items"].push_back(std::move(entry));
  }
  out << json.dump(2) << '\n';
}

void write_text(std::ostream& out, const std::vector<Item>& items, bool in_full) {
  std::size_t width = 0;
  for (const Item& item : items) width = std::max(width, item.name.size());
  for (const Item& item : items) {
    write_labelled(out, item.name, item.summary, width + 2);
    if (!in_full) continue;
    for (const auto& [key, value] : item.facts)
      if (key != "document") write_labelled(out, "  " + key, value, 14);  // which --json has
    if (&item != &items.back()) out << '\n';
  }
}

struct ListFlags {
  std::string topic;
  bool in_full = false;
  OutputFlags output;
};

ExitCode list(const ListFlags& flags) {
  if (flags.topic.empty()) throw InputError("list", topic_names, "nothing", "e.g. stepcast list strategies");
  const Topic& topic = topic_named(flags.topic);
  const std::vector<Item> items = topic.items();
  write_output(flags.output.path, [&](std::ostream& out) {
    if (flags.output.json) write_json(out, topic.name, items);
    else write_text(out, items, flags.in_full);
  });
  return answered;
}

Action add_list_flags(CLI::App& app) {
  auto flags = std::make_shared<ListFlags>();
  app.add_option("TOPIC", flags->topic, topic_names);
  app.add_flag("--long", flags->in_full, "With options, references and provenance");
  add_output_flags(app, flags->output);
  return [flags] { return list(*flags); };
}

}  // namespace

std::vector<std::string> list_topics() {
  std::vector<std::string> names;
  for (const Topic& topic : topics) names.emplace_back(topic.name);
  return names;
}

const Verb list_verb = {"list",
                        "List strategies, modifiers, layouts, schedules, collectives, formats, clusters, schemas, ...",
                        "stepcast list strategies --long", add_list_flags};

}  // namespace stepcast::cli
