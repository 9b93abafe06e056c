#pragma once
// Input options: the flags that say how batches get into training, and the pipeline that they describe.
#include <stepcast/whatif/input_pipeline.hpp>

#include <CLI/CLI.hpp>

#include <optional>
#include <string>

namespace stepcast::cli {

struct PipelineFlags {
  std::string file;
  std::string data_set, samples, cache_policy, storage, prep, workers, loader;
};
/// --input: a description that somebody wrote down.
void add_pipeline_file_flag(CLI::App&, PipelineFlags&);
/// The pipeline itself, or what is different from that of --input: --dataset and so on.
void add_pipeline_flags(CLI::App&, PipelineFlags&);

/// What the flags describe; nothing when none is given. Throws InputError.
[[nodiscard]] std::optional<InputPipeline> pipeline_of(const PipelineFlags&);
/// "0.6", "60%" or "64 GB" of a data set.
[[nodiscard]] double cached_share_of(const std::string& text, Bytes data_set);

}  // namespace stepcast::cli
