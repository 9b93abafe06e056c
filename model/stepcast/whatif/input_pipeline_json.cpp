// The JSON form of an input pipeline, schema "stepcast.input/1": unit strings for sizes and rates.
//
//   {"schema": "stepcast.input/1", "name": "imagenet-ssd", "data_set": "146 GB", "samples": 1281167,
//    "cache": "64 GB", "cache_policy": "lru", "storage": "530 MB/s", "prep_samples_per_s": 245, "workers": 24,
//    "provenance": ["storage by fio; one worker alone prepares 245 images/s"]}
#include <stepcast/base/text.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/encodings/json_node.hpp>
#include <stepcast/whatif/input_pipeline.hpp>

#include <algorithm>

namespace stepcast {
namespace {

using Json = JsonNode::Json;
constexpr std::string_view schema = "stepcast.input/1";

/// "cache", a size, or "cached_share" of the data set; neither: nothing is cached.
double cached_share_of(const JsonNode& top, Bytes data_set) {
  if (top.has("cache") && top.has("cached_share"))
    top.at("cache").refuse("either the size of the cache or cached_share");
  if (top.has("cached_share")) return top.at("cached_share").number();
  return top.has("cache") ? std::min(1.0, top.at("cache").bytes() / data_set) : 0;
}

}  // namespace

InputPipeline input_pipeline_of_json(std::string_view text, std::string_view source) {
  static const std::vector<std::string> known{"schema",
                                              "name",
                                              "data_set",
                                              "samples",
                                              "cache",
                                              "cached_share",
                                              "cache_policy",
                                              "storage",
                                              "memory",
                                              "network",
                                              "workers",
                                              "prep_samples_per_s",
                                              "loader",
                                              "jobs",
                                              "coordinated",
                                              "provenance",
                                              "storage_per_worker"};
  const Json json = parsed_json(text, source);
  const JsonNode top(json, std::string(source) + "#");
  top.require_keys(known);
  if (top.at("schema").text() != schema) top.at("schema").refuse(in_quotes(schema));
  const std::string place = std::string(source) + "#/";

  InputPipeline p;
  p.name = top.at("name").text();
  p.data_set = top.at("data_set").bytes();
  p.samples = top.at("samples").number();
  if (!(p.data_set > Bytes(0))) top.at("data_set").refuse("a positive size");
  p.cached_share = cached_share_of(top, p.data_set);
  if (top.has("cache_policy")) p.cache = cache_policy_of(top.at("cache_policy").text(), place + "cache_policy");
  p.storage = top.at("storage").bandwidth();
  if (top.has("storage_per_worker")) p.storage_per_worker = top.at("storage_per_worker").bandwidth();
  if (top.has("memory")) p.memory = top.at("memory").bandwidth();
  if (top.has("network")) p.network = top.at("network").bandwidth();
  if (p.cache == CachePolicy::partitioned) static_cast<void>(top.at("network"));
  if (top.has("prep_samples_per_s")) p.prep_samples_per_s = top.at("prep_samples_per_s").number();
  p.workers = top.at("workers").integer();
  if (top.has("loader")) p.loader = loader_law_of(top.at("loader").text(), place + "loader");
  if (top.has("jobs")) p.jobs = top.at("jobs").integer();
  if (top.has("coordinated")) p.coordinated = top.at("coordinated").boolean();
  for (const JsonNode& node : top.at("provenance").elements("an array of strings")) p.provenance.push_back(node.text());
  if (p.provenance.empty()) top.at("provenance").refuse("at least one line on where the numbers come from");
  return checked(std::move(p), source);
}

std::string json_of(const InputPipeline& p) {
  Json json{{"schema", schema},
            {"name", p.name},
            {"data_set", exact_text_of(p.data_set)},
            {"samples", p.samples},
            {"cached_share", p.cached_share},
            {"cache_policy", name_of(p.cache)},
            {"storage", exact_text_of(p.storage)}};
  if (p.storage_per_worker.value() > 0) json["storage_per_worker"] = exact_text_of(p.storage_per_worker);
  if (p.memory.value() > 0) json["memory"] = exact_text_of(p.memory);
  if (p.network.value() > 0) json["network"] = exact_text_of(p.network);
  if (p.prep_samples_per_s > 0) json["prep_samples_per_s"] = p.prep_samples_per_s;
  json["workers"] = p.workers;
  json["loader"] = name_of(p.loader);
  if (p.jobs != 1) json["jobs"] = p.jobs;
  if (p.coordinated) json["coordinated"] = true;
  json["provenance"] = p.provenance.empty() ? Json::array({"not stated"}) : Json(p.provenance);
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace stepcast
