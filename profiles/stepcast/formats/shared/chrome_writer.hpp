#pragma once
// ChromeWriter: who wrote a Chrome trace, told by its first 64 KiB.
//
// Profilers share the syntax and agree on nothing else, so that a file is recognised by the marks of its writer: names,
// keys and metadata that no other writes. One function decides for all readers, and so no two of them ever claim the
// same file. Not modelled: file names, which say nothing reliable.
#include <cstdint>
#include <string_view>

namespace stepcast {

enum class ChromeWriter : std::uint8_t {
  none,     ///< not a Chrome trace by anybody below
  horovod,  ///< also the array that ends behind its bracket: Horovod's, of a job that died early
  bytescheduler,
  byteps,
  mxnet,
  xla,
  rocprof,
  composer,
  operations,      ///< operations of a pipelined job: StragglerAnalysis
  run_metadata,    ///< a session step of TensorFlow 1
  model_timeline,  ///< sagemaker-debugger's lists of framework events
};

[[nodiscard]] ChromeWriter chrome_writer_of(std::string_view head);

}  // namespace stepcast
