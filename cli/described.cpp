#include "described.hpp"

#include "files.hpp"

#include <stepcast/error.hpp>
#include <stepcast/model_description.hpp>
#include <stepcast/model_shape.hpp>
#include <stepcast/suggestion.hpp>

#include <algorithm>
#include <cctype>
#include <utility>
#include <vector>

namespace stepcast::cli {
namespace {

std::string lower_case(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  for (const char c : lower_case(text) + " ") {
    if (std::isalnum(static_cast<unsigned char>(c))) word += c;
    else if (!word.empty()) words.push_back(std::exchange(word, {}));
  }
  return words;
}

Device named_or_read_device(const std::string& name) {
  if (const Device* shipped = shipped_device(name)) return *shipped;
  if (!looks_like_file(name))
    if (std::optional<Device> like = shipped_device_like(name)) return *std::move(like);
  if (looks_like_file(name)) return device_of_json(FileBytes(name).text(), shown_name(name));
  std::vector<std::string> names;
  for (const Device& device : shipped_devices()) names.push_back(device.name);
  throw InputError("--device", "a shipped device or a JSON file", "'" + name + "'",
                   did_you_mean(name, names, "'stepcast list devices' names the shipped ones"));
}

}  // namespace

bool same_device(std::string_view a, std::string_view b) {
  const std::vector<std::string> first = words_of(a), second = words_of(b);
  const auto within = [](const std::vector<std::string>& few, const std::vector<std::string>& many) {
    return !few.empty() && std::all_of(few.begin(), few.end(), [&](const std::string& word) {
      return std::find(many.begin(), many.end(), word) != many.end();
    });
  };
  return within(first, second) || within(second, first);
}

bool looks_like_file(const std::string& name) {
  return name == "-" || name.find('/') != std::string::npos || name.ends_with(".json");
}

std::optional<Device> shipped_device_like(std::string_view name) {
  if (const Device* exact = shipped_device(name)) return *exact;
  std::optional<Device> found;
  for (const Device& device : shipped_devices()) {
    if (name.empty() || !same_device(name, device.name)) continue;
    if (found) return std::nullopt;
    found = device;
  }
  return found;
}

bool is_described(const InputFlags& flags) {
  if (!describes_model(flags.model)) {
    if (!flags.files.empty()) return false;
    const std::vector<std::string> families = model_families();
    if (std::find(families.begin(), families.end(), flags.model) != families.end())
      throw InputError(
          "--model", "a description, or a trace beside it", "'" + flags.model + "'",
          "with a colon it is a description: '" + flags.model + ":'; 'stepcast list models' says the rest");
    throw InputError("", "a trace", "none",
                     "give one, or --model gpt:hidden=4096,layers=32,heads=32,seq=2048 --device NAME");
  }
  if (!flags.files.empty())
    throw InputError("--model", "either a trace or the description of a model", "both",
                     "a description stands in for a trace");
  return true;
}

std::optional<Device> device_of(const InputFlags& flags, const Cluster& cluster) {
  if (!flags.device.empty()) return named_or_read_device(flags.device);
  return shipped_device_like(cluster.device);
}

Device device_of_description(const InputFlags& flags, const Cluster& cluster) {
  if (std::optional<Device> device = device_of(flags, cluster)) return *std::move(device);
  throw InputError("--device", "the device that runs the described model", "nothing",
                   "'stepcast list devices' names the shipped ones");
}

std::optional<Device> roofline_of(const InputFlags& input, const Profile& profile) {
  return input.device.empty() ? shipped_device_like(profile.device) : device_of(input);
}

Cluster with_device(Cluster cluster, const std::optional<Device>& device) {
  if (!device) return cluster;
  if (cluster.device.empty()) cluster.device = device->name;
  if (cluster.device_memory == Bytes(0)) cluster.device_memory = device->memory;
  return cluster;
}

Cluster cluster_for(const InputFlags& input, const ClusterFlags& flags) {
  Cluster cluster = cluster_of(flags);
  const std::optional<Device> device = device_of(input, cluster);
  return with_device(std::move(cluster), device);
}

}  // namespace stepcast::cli
