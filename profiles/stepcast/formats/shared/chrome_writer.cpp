// ChromeWriter: the marks, most specific first.
#include <stepcast/formats/shared/chrome_writer.hpp>

#include <algorithm>
#include <initializer_list>

namespace stepcast {
namespace {

class Head {
 public:
  explicit Head(std::string_view text) : text_(text) {}
  [[nodiscard]] bool any(std::initializer_list<std::string_view> marks) const {
    return std::any_of(marks.begin(), marks.end(), [this](std::string_view mark) { return has(mark); });
  }
  [[nodiscard]] bool has(std::string_view mark) const { return text_.find(mark) != std::string_view::npos; }
  /// `"key": "value"` with or without the space.
  [[nodiscard]] bool says(std::string_view key, std::string_view value) const {
    for (std::size_t at = text_.find(key); at != std::string_view::npos; at = text_.find(key, at + 1)) {
      std::string_view rest = text_.substr(at + key.size());
      rest.remove_prefix(std::min(rest.find_first_not_of(" :\t\r\n"), rest.size()));
      if (rest.starts_with(value)) return true;
    }
    return false;
  }

 private:
  std::string_view text_;
};

ChromeWriter writer_of_array(const Head& head) {
  if (head.any({"\"INITCOMMUNICATION\"", "\"PUSH_PULLQUEUE\"", "\"PUSH_PULLCOMMUNICATION\"", "\"ALLREDUCEQUEUE\"",
                "\"ALLREDUCECOMMUNICATION\""}))
    return ChromeWriter::bytescheduler;
  if (head.has("\"mb_id\"") && head.has("\"model_chunk\"")) return ChromeWriter::operations;
  if (head.any({"\"event/batch\"", "training loop process\"", "\"callback/"}) && head.has("\"epoch\""))
    return ChromeWriter::composer;
  if (head.any({"\"NEGOTIATE_", "\"CYCLE_START\""})) return ChromeWriter::horovod;
  // Cached responses are not negotiated, and marks of cycles are an option.
  if (head.any({"\"ALLREDUCE\"", "\"ALLGATHER\"", "\"BROADCAST\"", "\"NCCL_", "\"MPI_", "\"GLOO_"}) &&
      head.says("\"ph\"", "\"B\""))
    return ChromeWriter::horovod;
  if (head.has("\"start_time_since_epoch_in_micros\""))
    return head.says("\"ph\"", "\"X\"") && !head.says("\"ph\"", "\"B\"") ? ChromeWriter::model_timeline
                                                                         : ChromeWriter::horovod;
  // A piece of a long timeline carries the names of all tensors in front; nobody else names processes without threads.
  if (head.has("\"process_sort_index\"") && !head.any({"\"ts\"", "\"tid\""})) return ChromeWriter::horovod;
  return ChromeWriter::none;
}

ChromeWriter writer_of_object(const Head& head) {
  if (!head.has("\"traceEvents\"")) return ChromeWriter::none;
  // As processes: dPRO names its own operations so.
  if (head.says("\"pid\"", "\"Comm.")) return ChromeWriter::byteps;
  // As chrome://tracing saves it again, and scripts that merge timelines.
  if (head.has("\"NEGOTIATE_") && head.says("\"ph\"", "\"B\"") && !head.has("\"cpu_op\"")) return ChromeWriter::horovod;
  if (head.any({"\"cpu/0\"", "\"cpu pinned/\""})) return ChromeWriter::mxnet;
  if (head.has("\"CPU HIP API\"") || (head.has("\"BeginNs\"") && head.has("\"DurationNs\"")))
    return ChromeWriter::rocprof;
  // Processes of TensorFlow 1: one for the computing and one for the tensors of each device, stream and copy engine.
  if (head.any({"/stream:all Compute\"", "/memcpy Compute\"", ":0 Compute\"", ":0 Tensors\""}))
    return ChromeWriter::run_metadata;
  if (head.any({"\"/host:CPU", "\"/device:GPU:", "\"/device:TPU:"})) return ChromeWriter::xla;
  if (head.has("\"/job:") && head.has("/replica:")) return ChromeWriter::run_metadata;
  return ChromeWriter::none;
}

}  // namespace

ChromeWriter chrome_writer_of(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return ChromeWriter::none;
  if (text[first] == '{') return writer_of_object(Head(text));
  if (text[first] != '[') return ChromeWriter::none;
  if (text.find_first_not_of(" \t\r\n", first + 1) == std::string_view::npos) return ChromeWriter::horovod;
  return writer_of_array(Head(text));
}

}  // namespace stepcast
