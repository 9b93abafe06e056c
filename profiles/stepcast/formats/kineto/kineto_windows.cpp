// Cut ahead, take back in order, begin anew where a window was not read to its end.
#include <stepcast/base/error.hpp>
#include <stepcast/formats/kineto/kineto_windows.hpp>
#include <stepcast/formats/kineto/window_workers.hpp>

#include <algorithm>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

namespace stepcast {
namespace {

class EventsReader {
 public:
  EventsReader(JsonText& text, TraceBuilder& builder, const std::string& source, WindowSizes sizes)
      : text_(text),
        builder_(builder),
        source_(source),
        sizes_(sizes),
        workers_(sizes.threads, sizes.one_by_one, builder) {}

  TextDamage read(const std::function<void()>& progress) {
    while (!ended_) {
      while (!last_cut_ && workers_.given() < workers_.wanted()) cut();
      if (workers_.given() == 0) break;
      if (progress) progress();
      take_back();
    }
    return damage_;
  }

 private:
  // True at the end of the array, which is left behind, or of the text.
  bool at_end() {
    while (text_.peek() == ',') text_.advance(1);
    const char next = text_.peek();
    if (next != ']' && next != '\0') return false;
    damage_.no_closing_bracket |= next == '\0';
    if (next == ']') text_.advance(1);
    return ended_ = last_cut_ = true;
  }

  // Cuts a window at the cursor and gives it to the workers. Behind a cut there is always another event.
  void cut() {
    if (workers_.given() == 0 && at_end()) return;
    auto task = std::make_unique<WindowTask>();
    task->offset = text_.offset();
    std::size_t size = 0;
    for (std::size_t wanted = std::exchange(wanted_, sizes_.window);; wanted *= 2) {
      size = text_.available(wanted);
      task->last = text_.at_last_part() && size <= wanted;
      task->wanted = wanted;
      task->give_up = wanted >= sizes_.largest_event;
      if (task->last) break;
      const std::size_t comma = last_cut({text_.here(), std::min(size, wanted)});
      size = comma + 1;
      if (comma != std::string_view::npos) break;
      if (wanted >= sizes_.largest_event) {
        if (workers_.given() > 0) {
          last_cut_ = true;
          return;
        }
        refuse(text_.offset(), "events of at most 16 MiB", "a larger one, or none at all");
      }
    }
    last_cut_ = task->last;
    task->piece = text_.taken(size);
    workers_.give(std::move(task));
  }

  void take_back() {
    const std::unique_ptr<WindowTask> task = workers_.next();
    builder_.add(std::move(task->block));
    if (task->error) std::rethrow_exception(task->error);
    damage_ += task->reading.damage;
    text_.used(task->offset);
    switch (task->reading.end) {
      case WindowEnd::whole:
        ended_ = task->last;
        if (workers_.given() == 0) last_cut_ = ended_;
        return;
      case WindowEnd::closed:
        begin_anew(*task);
        ended_ = true;
        return;
      case WindowEnd::unfinished:
        if (task->reading.read == 0 && task->give_up)
          refuse(task->offset, "events of at most 16 MiB", "a larger one, or none at all");
        begin_anew(*task);
        // An event that is longer than the window, or a cut within it: more text will tell.
        wanted_ = task->reading.read == 0 ? 2 * task->wanted : sizes_.window;
        return;
      case WindowEnd::hopeless:
        refuse(task->offset + task->reading.read, "readable events", "too many damaged ones");
    }
  }

  // Puts the cursor where this window was left, and gives up what was read behind it.
  void begin_anew(const WindowTask& task) {
    const std::vector<std::unique_ptr<WindowTask>> behind = workers_.recalled();
    std::vector<std::string_view> texts{task.piece.text.substr(task.reading.read)};
    for (const std::unique_ptr<WindowTask>& other : behind) {
      builder_.forget(std::move(other->block));
      texts.push_back(other->piece.text);
    }
    text_.put_back(texts);
    last_cut_ = false;
  }

  [[noreturn]] void refuse(std::uint64_t offset, const char* expected, const char* found) const {
    throw InputError(source_ + "@" + std::to_string(offset), expected, found);
  }

  JsonText& text_;
  TraceBuilder& builder_;
  const std::string& source_;
  WindowSizes sizes_;
  std::size_t wanted_ = sizes_.window;  ///< size of the next window to cut
  TextDamage damage_;
  bool last_cut_ = false;  ///< no further window can be cut before those on their way are taken back
  bool ended_ = false;
  WindowWorkers workers_;
};

}  // namespace

TextDamage read_events(JsonText& text, TraceBuilder& builder, const std::string& source,
                       const std::function<void()>& progress, WindowSizes sizes) {
  return EventsReader(text, builder, source, sizes).read(progress);
}

}  // namespace stepcast
