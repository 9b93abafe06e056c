// Models and devices that are named on the command line: shipped, described, or in a file.
#include "described.hpp"

#include "files.hpp"

#include <stepcast/base/error.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/roofline/description.hpp>
#include <stepcast/roofline/model_shape.hpp>
#include <stepcast/roofline/named_models.hpp>
#include <stepcast/roofline/shipped_models.hpp>

#include <algorithm>
#include <utility>
#include <vector>

namespace stepcast::cli {
namespace {

Device named_or_read_device(const std::string& name) {
  if (looks_like_file(name) && !shipped_device(name)) return device_of_json(FileBytes(name).text(), shown_name(name));
  return device_named(name, "--device");
}

}  // namespace

bool looks_like_file(const std::string& name) {
  return name == "-" || name.find('/') != std::string::npos || name.ends_with(".json");
}

bool is_described(const InputFlags& flags) {
  if (!describes_model(flags.model)) {
    if (!flags.files.empty()) return false;
    const std::vector<std::string> families = model_families();
    if (std::find(families.begin(), families.end(), flags.model) != families.end())
      throw InputError(
          "--model", "a description, or a trace beside it", in_quotes(flags.model),
          "with a colon it is a description: '" + flags.model + ":'; 'stepcast list models' says the rest");
    if (const auto comma = flags.model.find(','); comma != std::string::npos) {
      const std::string name = flags.model.substr(0, comma), fields = flags.model.substr(comma + 1);
      if (named_model(name) || std::find(families.begin(), families.end(), name) != families.end())
        throw InputError("--model", "a colon between the name of a model and what is changed of it",
                         in_quotes(flags.model), "write '" + name + ":" + fields + "'");
    }
    if (!flags.model.empty()) {
      std::vector<std::string> known = families;
      for (const NamedModel& m : named_models()) known.emplace_back(m.name);
      throw InputError(
          "--model", "a description, a public model, or a trace beside it", in_quotes(flags.model),
          did_you_mean(flags.model, known,
                       shipped_model(flags.model) ? "this list names the tensors of a trace, which is missing"
                                                  : "'stepcast list models' says which there are"));
    }
    throw InputError("", "a trace", "none",
                     "give one, or --model gpt:hidden=4096,layers=32,heads=32,seq=2048 --device NAME");
  }
  if (!flags.files.empty())
    throw InputError("--model", "either a trace or the description of a model", "both",
                     "a description stands in for a trace");
  return true;
}

std::optional<Device> device_of(const InputFlags& flags, const Cluster& cluster) {
  if (std::optional<Device> device = device_of_cluster(cluster, flags.device)) return device;
  if (!flags.device.empty()) return named_or_read_device(flags.device);
  return std::nullopt;
}

Device device_of_description(const InputFlags& flags, const Cluster& cluster) {
  if (std::optional<Device> device = device_of(flags, cluster)) return *std::move(device);
  throw InputError(
      "--device", "the device that runs the described model",
      cluster.device.empty() ? "nothing" : in_quotes(cluster.device) + " of the cluster, which is not shipped",
      "'stepcast list devices' names the shipped ones");
}

std::optional<Device> roofline_of(const InputFlags& input, const Profile& profile) {
  return input.device.empty() ? shipped_device_like(profile.device) : device_of(input);
}

Cluster cluster_for(const InputFlags& input, const ClusterFlags& flags) {
  Cluster cluster = cluster_of(flags);
  const std::optional<Device> device = device_of(input, cluster);
  return with_device(std::move(cluster), device);
}

}  // namespace stepcast::cli
