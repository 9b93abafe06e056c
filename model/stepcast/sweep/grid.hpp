#pragma once
// Sweep grid: a checked question, and what stands at a point of its grid (internal to the library).
//
// Invariant: a place depends on the values of its point alone, never on points that were asked for before.
#include <stepcast/sweep/sweep.hpp>

#include <memory>
#include <span>
#include <vector>

namespace stepcast {

/// What a point of the grid is predicted on.
struct SweepPlace {
  std::shared_ptr<const Profile> profile;
  Cluster cluster;
  /// Where some plan divides the model, what-ifs change the step, or the model is a described one, whose device errs
  /// and has to hold it.
  std::optional<PreparedQuestion> prepared{};
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
