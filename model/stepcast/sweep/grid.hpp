#pragma once
// Sweep parts: a checked question, and what stands at a point of its grid (internal to the library).
//
// Invariant: a place depends on the values of its point alone, never on points that were asked for before.
#include <stepcast/sweep/sweep.hpp>

#include <memory>
#include <string_view>

namespace stepcast {

/// The shape of the quantities that are no options.
struct SweepQuantityRule {
  SweepQuantity quantity;
  std::string_view name, column, title;
  std::string_view expected;  ///< of a value
};
[[nodiscard]] const SweepQuantityRule* rule_of(SweepQuantity);
/// Throws InputError for an axis whose name or values are none, in a question with these plans.
void check_axis(const SweepAxis&, std::span<const Plan> plans);
/// "network bandwidth (goodput)", "bucket of ddp": for the axis of a chart.
[[nodiscard]] std::string title_of(const SweepAxis&);

/// "5 ms" for text_of's "5.000 ms".
[[nodiscard]] std::string trimmed_text_of(Seconds);
/// Bandwidth and latency are those between machines: some point has several.
[[nodiscard]] bool over_network(const SweepQuestion&);

/// Where an axis of the option named `name` ("bucket", "ddp.bucket") writes its value: the option of the plan's
/// strategy or of its modifiers; null where the plan has none. `spec` receives its kind and range.
[[nodiscard]] double* option_of(PlanSpec& plan, std::string_view name, const OptionSpec** spec = nullptr);

/// What a point of the grid is predicted on.
struct SweepPlace {
  std::shared_ptr<const Profile> profile;
  Cluster cluster;
  std::optional<PreparedQuestion> divided{};  ///< where some plan divides the model, or what-ifs change the step
};

class SweepGrid {
 public:
  /// Throws InputError. Keeps a reference to the question.
  explicit SweepGrid(const SweepQuestion&);

  [[nodiscard]] const SweepQuestion& question() const { return question_; }
  [[nodiscard]] const std::vector<Plan>& plans() const { return plans_; }
  [[nodiscard]] std::size_t points() const { return points_; }
  [[nodiscard]] std::vector<double> values_at(std::size_t point) const;
  /// Inapplicable where no such cluster or batch can be.
  [[nodiscard]] Answer<SweepPlace> place_at(std::span<const double> values) const;
  /// A plan with the options of the axes. Inapplicable outside an option's range.
  [[nodiscard]] Answer<Plan> plan_at(std::size_t plan, std::span<const double> values) const;
  /// The same with its other options tuned, if the question says so.
  [[nodiscard]] Plan tuned_at(const SweepPlace&, const Plan& at, std::size_t plan) const;
  [[nodiscard]] Answer<Prediction> prediction_at(const SweepPlace&, const Plan&) const;

 private:
  [[nodiscard]] Answer<std::shared_ptr<const Profile>> profile_at(std::span<const double> values) const;
  [[nodiscard]] Answer<Cluster> cluster_at(std::span<const double> values) const;
  /// The value of an axis, null where there is none of the quantity.
  [[nodiscard]] const double* value_of(SweepQuantity, std::span<const double> values) const;

  const SweepQuestion& question_;
  const std::vector<Plan> plans_;
  const std::shared_ptr<const Profile> profile_;  ///< as traced
  std::size_t points_ = 1;
  const bool over_network_;
  const bool asks_;  ///< a plan alone does not say what is asked: layouts, or what-ifs
};

}  // namespace stepcast
