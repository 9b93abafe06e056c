// The C interface (stepcast.h): errors, texts, profiles and clusters; models are in model.cpp.
#include <stepcast/base/text.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/baseline/recorded_refusals.hpp>
#include <stepcast/c/handles.hpp>
#include <stepcast/c/settings.hpp>
#include <stepcast/cluster/cluster_description.hpp>
#include <stepcast/cluster/device_match.hpp>
#include <stepcast/documents/documents.hpp>
#include <stepcast/extraction/profile_of.hpp>
#include <stepcast/report/report.hpp>

#include <exception>
#include <new>
#include <span>
#include <sstream>
#include <string_view>
#include <vector>

namespace stepcast {
namespace {

constexpr std::string_view profile_keys[] = {"model",  "batch", "parameters", "step",
                                             "strict", "check", "recorded",   "kernels"};
constexpr std::string_view cluster_keys[] = {
    "cluster",       "workers", "per-node",    "network",     "inside",        "servers",   "collective",
    "device-memory", "level",   "slow-worker", "late-worker", "degraded-link", "jitter",    "switch",
    "loss",          "stalls",  "rto",         "background",  "connection",    "nccl-algo", "nccl-proto"};

std::span<const std::byte> bytes_at(const void* data, std::size_t size, const char* name) {
  if (size > 0) (void)c_needed(static_cast<const std::byte*>(data), name);
  return {static_cast<const std::byte*>(data), size};
}

stepcast_profile profile_of_sources(std::span<const Source> sources, const CSettings& settings) {
  const std::string batch = settings.text("batch"), kernels = settings.text("kernels");
  const double samples = batch.empty() ? 0 : number_of(batch, "batch");
  if (!batch.empty() && samples <= 0) throw InputError("batch", "a positive number of samples", in_quotes(batch));
  const std::string parameters = settings.text("parameters");
  const double count = parameters.empty() ? 0 : large_number_of(parameters, "parameters");
  const ProfileOptions options = profile_options_of(settings.text("model"), samples, count, "model");
  const std::string step = settings.text("step");
  if (!step.empty()) (void)seconds_of(step, "step");  // told before the sources are read
  const bool check = settings.yes("check", true), recorded = settings.yes("recorded", false);
  if (recorded && !step.empty()) throw recorded_refusal::beside_step("recorded", "step");
  if (recorded && !check) throw recorded_refusal::without_check("recorded");
  const ReadOptions reading{.strict = settings.yes("strict", false), .progress = {}};
  const Documents documents = documents_of(sources, reading, {"kernels", std::as_bytes(std::span(kernels)), {}});
  stepcast_profile out{profile_of(documents, options), {}, {}, {}};
  if (!step.empty()) out.profile = without_profiler(std::move(out.profile), seconds_of(step, "step"));
  out.check = std::make_shared<const SelfCheck>(
      recorded ? recorded_check_of(documents, out.profile, "recorded")
      : check  ? self_check_of(documents, out.profile)
               : SelfCheck{.ranks = {}, .missing = "the self-check was left out", .cautions = out.profile.cautions});
  out.caution = out.check->caution();
  for (const std::string& note : documents.notes) out.notes += note + '\n';
  return out;
}

stepcast_cluster cluster_of_settings(const char* const* list, std::optional<Cluster> base, const char* name) {
  const CSettings said(list, cluster_keys);
  ClusterDescription description{
      .cluster = said.text("cluster"),
      .workers = said.text("workers"),
      .per_node = said.text("per-node"),
      .network = said.text("network"),
      .inside = said.text("inside"),
      .servers = said.text("servers"),
      .collective = said.text("collective"),
      .device_memory = said.text("device-memory"),
      .nccl_algo = said.text("nccl-algo"),
      .nccl_proto = said.text("nccl-proto"),
      .slow_worker = said.text("slow-worker"),
      .late_worker = said.text("late-worker"),
      .degraded_link = said.text("degraded-link"),
      .jitter = said.text("jitter"),
      .aggregation = said.text("switch"),
      .loss = said.text("loss"),
      .stalls = said.text("stalls"),
      .rto = said.text("rto"),
      .background = said.text("background"),
      .connection = said.text("connection"),
      .level = {said.text("level")},
  };
  if (base) {
    if (!description.cluster.empty())
      throw InputError("cluster", "either a shipped cluster or one of one's own", "both");
    description.cluster = name;
  }
  Cluster cluster = cluster_of(description, base, "");
  const std::optional<Device> device = shipped_device_like(cluster.device);
  return {with_device(std::move(cluster), device)};
}

}  // namespace

std::vector<Source> c_sources(const stepcast_source* given, std::size_t count, const char* name) {
  if (count == 0) throw InputError(name, "one source or more", "none");
  std::vector<Source> sources;
  for (const stepcast_source& source : std::span(&c_needed(given, name), count))
    sources.push_back({source.name ? source.name : "source " + std::to_string(sources.size()),
                       bytes_at(source.bytes, source.size, name),
                       {}});
  return sources;
}

}  // namespace stepcast

using namespace stepcast;

const char* stepcast_version(void) { return STEPCAST_VERSION; }

stepcast_error* stepcast_error_new(void) { return new (std::nothrow) stepcast_error; }
void stepcast_error_free(stepcast_error* error) { delete error; }
const char* stepcast_error_message(const stepcast_error* error) {
  if (!error) return "";
  return error->no_memory ? "out of memory" : error->message.c_str();
}
const char* stepcast_error_where(const stepcast_error* error) { return error ? error->where.c_str() : ""; }
const char* stepcast_error_expected(const stepcast_error* error) { return error ? error->expected.c_str() : ""; }
const char* stepcast_error_found(const stepcast_error* error) { return error ? error->found.c_str() : ""; }
const char* stepcast_error_hint(const stepcast_error* error) { return error ? error->hint.c_str() : ""; }

const char* stepcast_text_data(const stepcast_text* text) { return text ? text->text.c_str() : ""; }
size_t stepcast_text_size(const stepcast_text* text) { return text ? text->text.size() : 0; }
void stepcast_text_free(stepcast_text* text) { delete text; }

stepcast_status stepcast_profile_of_sources(const stepcast_source* sources, size_t count, const char* const* settings,
                                            stepcast_profile** profile, stepcast_error* error) {
  return c_made(profile, "profile", error, [&]() -> Answer<stepcast_profile> {
    const CSettings said(settings, profile_keys);
    return profile_of_sources(c_sources(sources, count), said);
  });
}
void stepcast_profile_free(stepcast_profile* profile) { delete profile; }

stepcast_status stepcast_profile_json(const stepcast_profile* profile, stepcast_text** json, stepcast_error* error) {
  return c_made(json, "json", error, [&]() -> Answer<stepcast_text> {
    return c_text_of(
        [&](std::ostream& out) { report_named("json")->profile(out, c_needed(profile, "profile").profile); });
  });
}
stepcast_status stepcast_profile_check_json(const stepcast_profile* profile, stepcast_text** json,
                                            stepcast_error* error) {
  return c_made(json, "json", error, [&]() -> Answer<stepcast_text> {
    return c_text_of(
        [&](std::ostream& out) { report_named("json")->replay(out, *c_needed(profile, "profile").check); });
  });
}
const char* stepcast_profile_caution(const stepcast_profile* profile) {
  return profile ? profile->caution.c_str() : "";
}
const char* stepcast_profile_notes(const stepcast_profile* profile) { return profile ? profile->notes.c_str() : ""; }

stepcast_status stepcast_cluster_of_settings(const char* const* settings, stepcast_cluster** cluster,
                                             stepcast_error* error) {
  return c_made(cluster, "cluster", error,
                [&]() -> Answer<stepcast_cluster> { return cluster_of_settings(settings, std::nullopt, ""); });
}
stepcast_status stepcast_cluster_of_json(const char* name, const char* json, size_t size, const char* const* settings,
                                         stepcast_cluster** cluster, stepcast_error* error) {
  return c_made(cluster, "cluster", error, [&]() -> Answer<stepcast_cluster> {
    const std::string_view text(&c_needed(json, "json"), size);
    if (!name) name = "cluster";
    return cluster_of_settings(settings, cluster_of_json(text, name), name);
  });
}
void stepcast_cluster_free(stepcast_cluster* cluster) { delete cluster; }

stepcast_status stepcast_cluster_json(const stepcast_cluster* cluster, stepcast_text** json, stepcast_error* error) {
  return c_made(json, "json", error, [&]() -> Answer<stepcast_text> {
    return stepcast_text{json_of(c_needed(cluster, "cluster").cluster)};
  });
}
