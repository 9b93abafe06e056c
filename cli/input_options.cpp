// The flags of the input pipeline, and the profile that it feeds.
#include "input_options.hpp"

#include "files.hpp"
#include "help.hpp"

#include <stepcast/base/text.hpp>
#include <stepcast/base/words.hpp>

#include <algorithm>
#include <utility>

namespace stepcast::cli {
namespace {

/// "735/s", "735 /s".
double rate_of(std::string text, std::string_view where) {
  const std::string shown = in_quotes(text);
  if (!text.ends_with("/s")) throw InputError(std::string(where), "samples per second, such as '735/s'", shown);
  text.erase(text.size() - 2);
  while (text.ends_with(' ')) text.pop_back();
  const double rate = number_of(text, where);
  if (rate <= 0) throw InputError(std::string(where), "a positive rate", shown);
  return rate;
}

InputPipeline start_of(const PipelineFlags& flags) {
  if (!flags.file.empty()) return input_pipeline_of_json(FileBytes(flags.file).text(), shown_name(flags.file));
  for (const auto& [flag, value] : {std::pair{"--dataset", &flags.data_set}, std::pair{"--samples", &flags.samples},
                                    std::pair{"--storage", &flags.storage}, std::pair{"--prep", &flags.prep}})
    if (value->empty())
      throw InputError(flag, "the input pipeline", "nothing",
                       "give --input FILE, or --dataset 146GB --samples 1281167 --storage 530MB/s --prep 245/s");
  InputPipeline p;
  p.name = "command line";
  p.provenance = {"command line"};
  return p;
}

}  // namespace

void add_pipeline_file_flag(CLI::App& app, PipelineFlags& flags) {
  const HelpGroup group(app, "How samples arrive");
  app.add_option("--input", flags.file, "Storage, cache and loader that feed the steps: a JSON file");
}

void add_pipeline_flags(CLI::App& app, PipelineFlags& flags) {
  const HelpGroup group(app, "How samples arrive");
  app.add_option("--cache-policy", flags.cache_policy,
                 "How memory holds the data set: lru (page cache, default), never-evict, partitioned");
  app.add_option("--dataset", flags.data_set, "Size of the data set: 146GB");
  app.add_option("--samples", flags.samples, "Samples of the data set");
  app.add_option("--storage", flags.storage, "Rate at which a machine reads: 530MB/s");
  app.add_option("--prep", flags.prep, "Rate at which one loader worker decodes from memory: 245/s");
  app.add_option("--loader-workers", flags.workers, "Loader workers of a machine (default 1); 0: none");
  app.add_option("--loader", flags.loader, "Law of a worker: serial (default) or pipelined");
}

std::optional<InputPipeline> pipeline_of(const PipelineFlags& flags) {
  bool given = !flags.file.empty();
  for (const std::string* value : {&flags.data_set, &flags.samples, &flags.cache_policy, &flags.storage, &flags.prep,
                                   &flags.workers, &flags.loader})
    given |= !value->empty();
  if (!given) return std::nullopt;
  InputPipeline p = start_of(flags);
  if (!flags.data_set.empty()) p.data_set = bytes_of(flags.data_set, "--dataset");
  if (!flags.samples.empty()) p.samples = number_of(flags.samples, "--samples");
  if (!(p.data_set > Bytes(0))) throw InputError("--dataset", "a positive size", in_quotes(flags.data_set));
  if (!flags.cache_policy.empty()) p.cache = cache_policy_of(flags.cache_policy, "--cache-policy");
  if (!flags.storage.empty()) p.storage = bandwidth_of(flags.storage, "--storage");
  if (!flags.prep.empty()) p.prep_samples_per_s = rate_of(flags.prep, "--prep");
  if (!flags.workers.empty()) p.workers = integer_of(flags.workers, "--loader-workers", 0, 1'000'000);
  if (!flags.loader.empty()) p.loader = loader_law_of(flags.loader, "--loader");
  if (p.cache == CachePolicy::partitioned && p.network.value() == 0)
    throw InputError(
        "--cache-policy", "the network between the caches", "nothing",
        "say it in a file, with --input, or ask --what 'input(policy=partitioned)' for that of the cluster");
  return checked(std::move(p), flags.file.empty() ? "input" : shown_name(flags.file));
}

double cached_share_of(const std::string& text, Bytes data_set) {
  if (text.ends_with('B')) return std::min(1.0, bytes_of(text, "--cache") / data_set);
  const double share = share_of(text, "--cache");
  if (!(share >= 0 && share <= 1))
    throw InputError("--cache", "a share from 0 to 1 of the data set, or a size such as '64 GB'", in_quotes(text));
  return share;
}

}  // namespace stepcast::cli
