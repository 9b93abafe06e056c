// Rankings: many plans, best first.
#include "bindings.hpp"
#include "packed.hpp"
#include "properties.hpp"

#include <stepcast/base/words.hpp>
#include <stepcast/page/steps_svg.hpp>
#include <stepcast/report/report.hpp>

#include <algorithm>

namespace stepcast::python {

RecommendOptions recommend_options(const std::vector<std::string>& allow, const std::vector<std::string>& plans,
                                   bool tune, const std::string& search, bool sensitivity, bool by_step,
                                   double iterations) {
  RecommendOptions out;
  for (const std::string& word : allow) {
    if (word == name_of(Fidelity::lossy)) out.allow_lossy = true;
    else if (word == name_of(Fidelity::stale)) out.allow_stale = true;
    else if (word == name_of(Fidelity::periodic)) out.allow_periodic = true;
    else throw InputError("allow", "lossy, stale or periodic", in_quotes(word));
  }
  for (const std::string& plan : plans) out.plans.push_back(plan_spec_of(plan));
  out.tune = tune;
  if (search == "bayesian") out.search = Search::bayesian;
  else if (search != "grid") throw InputError("search", "grid or bayesian", in_quotes(search));
  out.sensitivity = sensitivity;
  out.by_step = by_step;
  out.iterations = run_iterations(iterations);
  return out;
}

namespace {

std::shared_ptr<RankedResult> result_of(const RankedPlan& plan, const ProfilePtr& profile, const ClusterPtr& cluster) {
  const auto shared = [&](const Prediction& p) {
    return std::make_shared<PredictionResult>(PredictionResult{p, profile, cluster});
  };
  return std::make_shared<RankedResult>(RankedResult{plan, shared(plan.prediction), shared(plan.standard)});
}

}  // namespace

void rank_over_what_runs(RecommendOptions& options, const TracedProfile& traced, const Cluster& cluster, bool all) {
  stepcast::rank_over_what_runs(options, traced.check, PreparedQuestion(question_of(traced, cluster, 0)),
                                all ? PlansOfAnotherJob::ranked : PlansOfAnotherJob::left_out);
}

namespace {

/// Of a described model all plans share out the batch that `predict` gives them; the profile becomes a worker's part of
/// it. Throws NoAnswer where data parallelism, over which gains are, cannot train it.
void ask_described(RecommendOptions& options, ProfilePtr& profile, const Cluster& cluster,
                   const std::vector<std::string>& measured) {
  Question asked = question_of(*profile, cluster, 0, measured);
  asked.profile = profile_of_usual_batch(asked, {});
  profile = std::make_shared<TracedProfile>(*profile);
  profile->profile = asked.profile;
  const auto question = std::make_shared<const PreparedQuestion>(std::move(asked));
  if (const Answer<Prediction> ddp = question->answer(plan_of("ddp")); !ddp)
    throw NoAnswer{"data parallelism, over which gains are, cannot train the model: " + ddp.reason() +
                   "; stepcast.layouts divides it"};
  options.model = [question](const PlanSpec& plan) { return question->answer(plan); };
}

}  // namespace

RankingPtr result_of(Ranking ranking, const ProfilePtr& profile, const ClusterPtr& cluster, bool advice) {
  auto out =
      std::make_shared<RankingResult>(RankingResult{profile, cluster, std::move(ranking), advice, {}, {}, {}, {}, {}});
  const Ranking& all = out->ranking;
  out->baseline = std::make_shared<PredictionResult>(PredictionResult{all.baseline, profile, cluster});
  for (const RankedPlan& plan : all.exact) out->exact.push_back(result_of(plan, profile, cluster));
  for (const RankedPlan& plan : all.others) out->others.push_back(result_of(plan, profile, cluster));
  if (all.other_collective) out->other_collective = result_of(all.other_collective->plan, profile, cluster);
  if (all.halves) out->halves = result_of(*all.halves, profile, cluster);
  return out;
}

namespace {

RankingPtr recommend(const ProfilePtr& profile, const ClusterPtr& given, const std::vector<std::string>& allow,
                     const std::optional<std::vector<std::string>>& plans, bool tune, const std::string& search,
                     bool sensitivity, bool by_step, const std::string& whatif, double iterations,
                     const std::vector<std::string>& measured) {
  WithoutGil released;
  RecommendOptions options = recommend_options(allow, plans.value_or(std::vector<std::string>()), tune, search,
                                               sensitivity, by_step, iterations);
  options.heed = [&] { released.heed_signals(); };
  refuse_other_device(*profile, *given);
  const ClusterPtr cluster = with_links(*profile, given);
  if (plans && plans->empty()) throw InputError("plans", "a plan or more", "none");
  ProfilePtr after = changed_profile(profile, *cluster, whatif, measured);
  if (profile->usual_batch && whatif.empty()) ask_described(options, after = profile, *cluster, measured);
  else rank_over_what_runs(options, *after, *cluster, by_step);
  return result_of(recommended(after->profile, *cluster, options), after, cluster, true);
}

/// Plans of one's own take their places among the others.
void add_own(Ranking& ranking, const Profile& profile, const Cluster& cluster, const OwnPlan& own, double iterations) {
  Answer<Prediction> answer = predicted(profile, cluster, own.plan, own.name);
  if (!answer) {
    ranking.inapplicable.push_back({own.name, answer.reason()});
    return;
  }
  if (iterations > 0)  // it has no warm-up
    answer->run = TrainingRun{iterations, 0, Seconds(0), iterations * answer->iteration};
  RankedPlan plan{*answer, *answer, ranking.baseline.iteration / answer->iteration, "", cluster.nodes};
  const auto slower = std::find_if(ranking.exact.begin(), ranking.exact.end(), [&](const RankedPlan& other) {
    return other.prediction.iteration > answer->iteration || !(ranking.by_step || other.is_at_hand());
  });
  ranking.exact.insert(slower, std::move(plan));
}

RankingPtr compare(const ProfilePtr& profile, const ClusterPtr& asked,
                   const std::optional<std::vector<std::string>>& plans, const std::vector<OwnPlanPtr>& given, bool all,
                   const std::string& whatif, double iterations, const std::vector<std::string>& measured) {
  std::vector<OwnPlan> own;  // copies: other threads may add to the plans meanwhile
  for (const OwnPlanPtr& plan : given) own.push_back(*plan);
  WithoutGil released;
  std::vector<std::string> allow;
  if (all) allow = {"lossy", "stale", "periodic"};
  const bool only_own = plans && plans->empty() && !own.empty();
  if (plans && plans->empty() && own.empty()) throw InputError("plans", "a plan or more", "none");
  RecommendOptions options =
      recommend_options(allow, plans.value_or(std::vector<std::string>()), false, "grid", false, true, iterations);
  options.heed = [&] { released.heed_signals(); };
  if (only_own) options.plans.push_back(plan_spec_of("ddp"));  // only for the baseline
  refuse_other_device(*profile, *asked);
  const ClusterPtr cluster = with_links(*profile, asked);
  if (!own.empty()) refuse_own_plan(*profile);
  ProfilePtr after = changed_profile(profile, *cluster, whatif, measured);
  // Plans of one's own are of the step of the profile, and so are those beside them.
  if (profile->usual_batch && whatif.empty() && own.empty())
    ask_described(options, after = profile, *cluster, measured);
  else rank_over_what_runs(options, *after, *cluster, all);
  Ranking ranking = recommended(after->profile, *cluster, options);
  if (only_own) ranking.exact.clear(), ranking.inapplicable.clear();
  for (const OwnPlan& plan : own) add_own(ranking, after->profile, *cluster, plan, options.iterations);
  return result_of(std::move(ranking), after, cluster, false);
}

py::dict refused(const RankingResult& r) {
  py::dict out;
  for (const RejectedPlan& plan : r.ranking.inapplicable) out[py::str(plan.plan)] = plan.reason;
  return out;
}

}  // namespace

void bind_ranking(py::module_& module) {
  py::class_<RankedResult, std::shared_ptr<RankedResult>> ranked(module, "RankedPlan", "A plan in its place.");
  def_fields<RankedPlan>(ranked, [](const RankedResult& r) -> const RankedPlan& { return r.plan; });
  ranked.def_readonly("prediction", &RankedResult::prediction)
      .def_readonly("standard", &RankedResult::standard)
      .def("__repr__", in_python("ranked_repr"))
      .def(py::pickle(
          [](const RankedResult& r) {
            return py::make_tuple(r.prediction->profile, r.prediction->cluster, packed(r.plan));
          },
          [](const py::tuple& state) {
            const py::tuple& s = parts_of(state, 3);
            return result_of(unpacked<RankedPlan>(py::object(s[2])), s[0].cast<ProfilePtr>(), s[1].cast<ClusterPtr>());
          }));
  py::class_<RankingResult, RankingPtr>(module, "Ranking", "Plans, best first.")
      .def_readonly("profile", &RankingResult::profile)
      .def_readonly("cluster", &RankingResult::cluster)
      .def_readonly("baseline", &RankingResult::baseline)
      .def_property_readonly("best",
                             [](const RankingResult& r) {
                               if (r.exact.empty() && r.others.empty())
                                 throw NoAnswer{"no plan can run on this cluster"};
                               return r.exact.empty() ? r.others.front() : r.exact.front();
                             })
      .def_property_readonly("exact", [](const RankingResult& r) { return tuple_of(r.exact); })
      .def_property_readonly("others", [](const RankingResult& r) { return tuple_of(r.others); })
      .def_property_readonly("inapplicable", &refused)
      .def_property_readonly("holds",
                             [](const RankingResult& r) -> py::object {
                               if (!r.ranking.holds) return py::none();
                               return py::make_tuple(r.ranking.holds->low.value(), r.ranking.holds->high.value());
                             })
      .def_property_readonly("as_good",
                             [](const RankingResult& r) -> py::object {
                               if (!r.ranking.as_good) return py::none();
                               const OptionRange& plans = *r.ranking.as_good;
                               return py::make_tuple(text_of(plans.low), text_of(plans.high));
                             })
      .def_readonly("other_collective", &RankingResult::other_collective)
      .def_readonly("halves", &RankingResult::halves)
      .def("to_json",
           [](const RankingResult& r) {
             return written([&](std::ostream& out) {
               report_named("json")->ranking(out,
                                             {r.profile->profile, *r.cluster, r.profile->check, r.ranking, r.advice});
             });
           })
      .def("to_text",
           [](const RankingResult& r) {
             return written([&](std::ostream& out) {
               report_named("text")->ranking(out,
                                             {r.profile->profile, *r.cluster, r.profile->check, r.ranking, r.advice});
             });
           })
      .def(
          "to_svg",
          [](const RankingResult& r) {
            return written([&](std::ostream& out) {
              write_steps_svg(out, {r.profile->profile, *r.cluster, r.profile->check, r.ranking, r.advice});
            });
          },
          "A step of the job and one of the best plan, one below the other.", Free())
      .def("to_pandas", in_python("ranking_frame"))
      .def("__repr__", in_python("ranking_repr"))
      .def("_repr_html_", in_python("ranking_html"))
      .def("__len__", [](const RankingResult& r) { return r.exact.size() + r.others.size(); })
      .def("__getitem__",
           [](const py::object& self, const py::object& place) {
             return py::tuple(self.attr("exact") + self.attr("others")).attr("__getitem__")(place);
           })
      .def(py::pickle(
          [](const RankingResult& r) { return py::make_tuple(r.profile, r.cluster, r.advice, packed(r.ranking)); },
          [](const py::tuple& state) {
            const py::tuple& s = parts_of(state, 4);
            return result_of(unpacked<Ranking>(py::object(s[3])), s[0].cast<ProfilePtr>(), s[1].cast<ClusterPtr>(),
                             s[2].cast<bool>());
          }));
  module.def("recommend", &recommend);
  module.def("compare", &compare);
}

}  // namespace stepcast::python
