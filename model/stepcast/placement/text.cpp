// The text form of a placement:
//
//   placement = "placement" "(" field { "," field } ")"       field: devices=2+0+1, units=4+3+5, mb=2, adatopk=50, ...
#include <stepcast/base/spec_reader.hpp>
#include <stepcast/base/text.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/placement/placement.hpp>

#include <algorithm>

namespace stepcast {
namespace {

constexpr std::string_view keyword = "placement";
constexpr std::int64_t most = 1'000'000'000;
using Names = std::vector<std::string>;
const Names fields{"devices", "units", "mb", "adatopk", "schedule"};
enum Field : std::uint8_t { devices, units, mb, adatopk, schedule };

std::vector<std::uint32_t> numbers_of(std::string_view value, const SpecPlace& place, std::int64_t low) {
  std::vector<std::uint32_t> numbers;
  for (std::size_t at = 0; at <= value.size();) {
    const std::size_t end = std::min(value.find('+', at), value.size());
    numbers.push_back(static_cast<std::uint32_t>(
        integer_of(trimmed(value.substr(at, end - at)), place.where(), low, std::int64_t{1'000'000})));
    at = end + 1;
  }
  return numbers;
}

std::string text_of_numbers(const std::vector<std::uint32_t>& numbers) {
  std::string out;
  for (const std::uint32_t n : numbers) out += (out.empty() ? "" : "+") + std::to_string(n);
  return out;
}

void read(PlacementPlan& plan, std::size_t field, std::string_view value, const SpecPlace& place) {
  switch (static_cast<Field>(field)) {
    case devices:
      plan.device = numbers_of(value, place, 0);
      return;
    case units:
      plan.units = numbers_of(value, place, 1);
      return;
    case mb:
      plan.micro_batch = integer_of(value, place.where(), 1, most);
      return;
    case adatopk:
      plan.ratio = number_of(value, place.where());
      if (!(plan.ratio >= 1 && plan.ratio <= 1e6))
        throw InputError(place.where(), "a ratio from 1 to 1e6", in_quotes(value));
      return;
    case schedule:
      plan.schedule = &pipeline_schedules()[choice_of(value, place, names_of(pipeline_schedules()))];
      if (plan.schedule->name == "gpipe") plan.schedule = nullptr;
      return;
  }
}

}  // namespace

bool has_placement(std::string_view text) {
  text = trimmed(text);
  if (!text.starts_with(keyword)) return false;
  const std::string_view rest = trimmed(text.substr(keyword.size()));
  return rest.empty() || rest.front() == '(';
}

PlacementPlan placement_plan_of(std::string_view text) {
  SpecReader in("plan", text);
  PlacementPlan plan;
  const std::size_t at = in.skip();
  if (in.word() != keyword) in.refuse(at, "'placement(devices=..., units=...)'");
  (void)in.options(keyword, fields, [&](std::size_t field, std::string_view value, const SpecPlace& place) {
    read(plan, field, value, place);
  });
  in.require_end("the end of the placement");
  if (plan.device.empty()) in.refuse(at, "the devices of the stages, such as devices=0+1", "none");
  if (plan.units.size() != plan.device.size())
    in.refuse(at, "the units of each stage: as many numbers in units= as in devices=",
              std::to_string(plan.units.size()) + " for " + counted(std::ssize(plan.device), "device"));
  for (std::size_t a = 0; a < plan.device.size(); ++a)
    for (std::size_t b = 0; b < a; ++b)
      if (plan.device[a] == plan.device[b])
        in.refuse(at, "each device once", "device " + std::to_string(plan.device[a]) + " twice");
  return plan;
}

std::string text_of(const PlacementPlan& plan) {
  std::string out =
      std::string(keyword) + "(devices=" + text_of_numbers(plan.device) + ", units=" + text_of_numbers(plan.units);
  if (plan.micro_batch > 0) out += ", mb=" + std::to_string(plan.micro_batch);
  if (plan.ratio > 1) out += ", adatopk=" + exact_text_of(plan.ratio);
  if (plan.schedule != nullptr && plan.schedule->name != "gpipe")
    out += ", schedule=" + std::string(plan.schedule->name);
  return out + ")";
}

}  // namespace stepcast
