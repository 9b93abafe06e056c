// Device names are compared by their words.
#include <stepcast/base/error.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/cluster/device_match.hpp>
#include <stepcast/cluster/links_of_trace.hpp>
#include <stepcast/profile/profile_whatif.hpp>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

namespace stepcast {
namespace {

/// All words of one name occur in the other.
bool within(const std::vector<std::string>& few, const std::vector<std::string>& many) {
  return !few.empty() && std::ranges::all_of(few, [&](const std::string& word) {
    // A socket without its version is any of them.
    return std::ranges::any_of(
        many, [&](const std::string& other) { return word == other || (word == "sxm" && other.starts_with(word)); });
  });
}
/// The words of a name but for the size and the kind of the memory.
std::vector<std::string> words_of_chip(std::string_view name) {
  std::vector<std::string> words = lower_words(name);
  std::erase_if(words, [](const std::string& word) { return word.ends_with("gb") || word.starts_with("hbm"); });
  return words;
}

}  // namespace

bool same_device(std::string_view a, std::string_view b) {
  const std::vector<std::string> first = lower_words(a), second = lower_words(b);
  return within(first, second) || within(second, first);
}

std::optional<Device> shipped_device_like(std::string_view name) {
  if (const Device* exact = shipped_device(name)) return *exact;
  std::vector<const Device*> found;
  const std::vector<std::string> called = shipped_device_names();
  for (std::size_t i = 0; i < called.size(); ++i) {
    const Device& device = shipped_devices()[i];
    if (!name.empty() && (same_device(name, device.name) || same_device(name, called[i]))) found.push_back(&device);
  }
  // "a100" is the A100 itself, not the same chip under a software that the name says beside it, and of several that
  // differ in their memory the largest.
  const Device* plain = nullptr;
  for (const Device* device : found) {
    const std::vector<std::string> words = words_of_chip(device->name);
    const bool is_part_of_all =
        std::ranges::all_of(found, [&](const Device* other) { return within(words, words_of_chip(other->name)); });
    if (is_part_of_all && (plain == nullptr || device->memory > plain->memory)) plain = device;
  }
  return plain == nullptr ? std::nullopt : std::optional<Device>(*plain);
}

std::optional<Device> device_of_cluster(const Cluster& cluster, std::string_view name) {
  const bool says_no_more = name.empty() || within(lower_words(name), lower_words(cluster.device));
  return says_no_more ? shipped_device_like(cluster.device) : std::nullopt;
}

Device device_named(std::string_view name, std::string_view where) {
  if (std::optional<Device> device = shipped_device_like(name)) return *std::move(device);
  throw InputError(std::string(where), "a shipped device or a JSON file", in_quotes(name),
                   did_you_mean(name, shipped_device_names(), "'stepcast list devices' names the shipped ones"));
}

Cluster with_device(Cluster cluster, const std::optional<Device>& device) {
  if (!device) return cluster;
  if (cluster.device_memory == Bytes(0)) cluster.device_memory = device->memory;
  if (device->on_host) return cluster;  // the host computes, which needs no name, and stages nothing
  if (cluster.device.empty()) cluster.device = device->name;
  if (cluster.server_staging_rate == BytesPerSecond(0)) {
    cluster.server_staging_rate = BytesPerSecond(20e9);
    cluster.provenance.push_back("server_staging_rate: assumed 20 GB/s between device and host (PCIe 4.0 x16)");
  }
  // As the shipped clusters of GPUs have it: their collectives are kernels beside the others.
  const bool is_gpu = !device->name.starts_with("Google TPU");
  if (is_gpu && is_unsaid(cluster, unsaid_contention)) {
    std::erase(cluster.provenance, unsaid_contention);
    cluster.contention.compute_under_communication = 1.25;
    cluster.provenance.push_back(
        "contention: assumed that compute takes 1.25 times as long beside collectives, as "
        "under FSDP on A100 (yandex/YaFSDP README)");
  }
  return cluster;
}

Profile profile_on(const Cluster& cluster, Profile profile, const DeviceAssumption& assumed, std::string_view prefix) {
  const auto field = [&](std::string_view name) { return std::string(prefix) + std::string(name); };
  const bool faster = assumed.faster_compute != 0;
  if (assumed.same_device && faster)
    throw InputError(field("faster-compute"), "either " + field("same-device") + " or " + field("faster-compute"),
                     "both");
  if (faster) {
    if (!(assumed.faster_compute > 0 && std::isfinite(assumed.faster_compute)))
      throw InputError(field("faster-compute"), "a positive factor", std::to_string(assumed.faster_compute));
    return with_faster_compute(std::move(profile), assumed.faster_compute);
  }
  if (assumed.same_device || cluster.device.empty() || same_device(cluster.device, profile.device)) return profile;
  throw InputError(field("cluster"), "the traced device (" + (profile.has_device() ? profile.device : "the host") + ")",
                   in_quotes(cluster.device),
                   "say what to assume: " + field("faster-compute") + " X, or " + field("same-device") +
                       " for the traced compute times");
}

}  // namespace stepcast
