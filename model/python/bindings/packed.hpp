#pragma once
// Packed: C++ values as nested tuples of Python's, and back, for pickle.
//
// Results are packed by their lists of fields (result_fields.hpp), as dictionaries; other types list their fields here.
// Invariant: unpacked(packed(x)) equals x to the last bit. Not modelled: pickles of another version of the program,
// which are refused by their fields' names or number.
#include "bindings.hpp"

#include <stepcast/prediction/alike.hpp>

#include <optional>
#include <type_traits>

namespace stepcast::python {

template <class A>
void fields(A& a, Step& s) {
  a(s.number, s.start_ns, s.end_ns, s.distorted, s.stalled);
}
template <class A>
void fields(A& a, Replay& r) {
  a(r.source, r.measured, r.replayed, r.relative_error, r.scored, r.doubtful, r.note, r.noise, r.recorded_gap_share,
    r.calibration_step, r.steps, r.step_times, r.rebuilt);
}
template <class A>
void fields(A& a, TracedRank& r) {
  a(r.rank, r.source, r.step, r.transfer, r.waiting, r.late, r.clock_offset, r.clock_residual);
}
template <class A>
void fields(A& a, AsTraced& t) {
  a(t.plan, t.predicted, t.measured, t.missing, t.left_out, t.on_links);
}
template <class A>
void fields(A& a, StepBlocks::Term& t) {
  a(t.slot, t.after);
}
template <class A>
void fields(A& a, StepBlocks::Row& r) {
  a(r.slot, r.first_term);
}
template <class A>
void fields(A& a, StepBlocks::Block& b) {
  a(b.first_row, b.slot);
}
template <class A>
void fields(A& a, StepBlocks& b) {
  a(b.terms, b.rows, b.blocks, b.order, b.slots, b.states);
}
template <class A>
void fields(A& a, RecordedCollective& c) {
  a(c.operation, c.size, c.group_size, c.duration, c.least, c.late, c.role, c.per_machine, c.event, c.meeting);
}
template <class A>
void fields(A& a, RecordedRank::Part& p) {
  a(p.collective, p.recorded);
}
template <class A>
void fields(A& a, GradientExchange::Issue& i) {
  a(i.gradient, i.host, i.work, i.is_recorded);
}
template <class A>
void fields(A& a, GradientExchange::Recorded& r) {
  a(r.collective, r.last);
}
template <class A>
void fields(A& a, GradientExchange& e) {
  a(e.hosts, e.anchors, e.issues, e.recorded, e.sizes, e.latency);
}
template <class A>
void fields(A& a, RecordedRank& r) {
  a(r.blocks, r.parts, r.collectives, r.exchange, r.fixed);
}
template <class A>
void fields(A& a, Link& l) {
  a(l.latency, l.bandwidth);
}
template <class A>
void fields(A& a, RecordedJob& j) {
  a(j.ranks, j.in_lockstep, j.workers, j.batch_samples, j.noise, j.replay_error, j.usual, j.work, j.inside, j.network,
    j.anywhere);
}
template <class A>
void fields(A& a, SelfCheck& c) {
  a(c.ranks, c.missing, c.together, c.lateness, c.cautions, c.as_traced, c.recorded, c.beside, c.by_request);
}
template <class A>
void fields(A& a, Node& n) {
  a(n.kind, n.index, n.phase);
}
template <class A>
void fields(A& a, Edge& e) {
  a(e.from, e.to, e.lag);
}
template <class A>
void fields(A& a, Transfer& t) {
  a(t.operation, t.channel, t.carries_gradient, t.priority, t.size, t.dense, t.delay, t.overhead, t.first_tensor,
    t.tensors);
}

template <class A>
void fields(A& a, PassCost& c) {
  a(c.host, c.device);
  for (Seconds& time : c.part) a(time);
}
template <class A>
void fields(A& a, Layer& l) {
  a(l.name, l.forward, l.backward, l.input_shape, l.input_dtype, l.kept);
}
template <class A>
void fields(A& a, Tensor& t) {
  a(t.name, t.shape, t.dtype, t.size, t.layer, t.packing);
}

/// The last of the values of an enumeration.
template <class Enum>
inline constexpr Enum last_of = Enum::no_such_value;
template <>
inline constexpr Fidelity last_of<Fidelity> = Fidelity::periodic;
template <>
inline constexpr CollectiveRole last_of<CollectiveRole> = CollectiveRole::unknown;
template <>
inline constexpr DataType last_of<DataType> = DataType::f4;
template <>
inline constexpr NodeKind last_of<NodeKind> = NodeKind::transfer;
template <>
inline constexpr UpdatePlace last_of<UpdatePlace> = UpdatePlace::on_server;
template <>
inline constexpr Discipline last_of<Discipline> = Discipline::parallel;
template <>
inline constexpr Operation last_of<Operation> = static_cast<Operation>(operation_count - 1);

[[noreturn]] inline void refuse_pickle() { throw py::value_error("a pickle of another version of stepcast"); }

template <class T>
py::object packed(const T& value);

struct Packer {
  py::list out{};
  template <class... T>
  void operator()(T&... values) {
    (out.append(packed(values)), ...);
  }
};
struct Unpacker {
  py::tuple in;
  std::size_t next = 0;
  template <class... T>
  void operator()(T&... values);
};

template <class T>
inline constexpr bool is_vector = false;
template <class T>
inline constexpr bool is_vector<std::vector<T>> = true;
template <class T>
inline constexpr bool is_optional = false;
template <class T>
inline constexpr bool is_optional<std::optional<T>> = true;
template <class T>
inline constexpr bool is_quantity = false;
template <class Tag>
inline constexpr bool is_quantity<Quantity<Tag>> = true;

template <class T>
py::object packed(const T& value) {
  if constexpr (std::is_enum_v<T>) {
    return py::int_(static_cast<int>(value));
  } else if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string>) {
    return py::cast(value);
  } else if constexpr (is_quantity<T>) {
    return py::float_(value.value());
  } else if constexpr (std::is_same_v<T, PlanSpec>) {
    return py::make_tuple(static_cast<bool>(value.own), value.own ? std::string(value.own->name) : text_of(value),
                          value.collective);
  } else if constexpr (is_optional<T>) {
    return value ? packed(*value) : py::none();
  } else if constexpr (is_vector<T>) {
    py::list out;
    for (const auto& item : value) out.append(packed(item));
    return out;
  } else if constexpr (HasFields<T>) {
    py::dict out;
    for_each_field<T>([&](auto field) {
      if constexpr (field.is_member) out[field.name] = packed(value.*field.get);
    });
    return out;
  } else {
    Packer packer;
    fields(packer, const_cast<T&>(value));  // only read
    return py::tuple(packer.out);
  }
}

template <class T>
T unpacked(const py::object& from) {
  if constexpr (std::is_enum_v<T>) {
    const int value = from.cast<int>();
    if (value < 0 || value > static_cast<int>(last_of<T>)) refuse_pickle();
    return static_cast<T>(value);
  } else if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string>) {
    return from.cast<T>();
  } else if constexpr (is_quantity<T>) {
    return T(from.cast<double>());
  } else if constexpr (std::is_same_v<T, PlanSpec>) {
    const auto [own, text, collective] = from.cast<std::tuple<bool, std::string, std::string>>();
    return own ? spec_named(text, collective) : plan_spec_of(text);
  } else if constexpr (is_optional<T>) {
    if (from.is_none()) return std::nullopt;
    return unpacked<typename T::value_type>(from);
  } else if constexpr (is_vector<T>) {
    T out;
    for (const py::handle item : from)
      out.push_back(unpacked<typename T::value_type>(py::reinterpret_borrow<py::object>(item)));
    return out;
  } else if constexpr (HasFields<T>) {
    T out;
    const auto in = from.cast<py::dict>();
    std::size_t members = 0;
    for_each_field<T>([&](auto field) {
      if constexpr (field.is_member) {
        using Value = std::remove_reference_t<decltype(out.*field.get)>;
        if (!in.contains(field.name)) refuse_pickle();
        out.*field.get = unpacked<Value>(py::object(in[field.name]));
        ++members;
      }
    });
    if (members != in.size()) refuse_pickle();
    return out;
  } else {
    T out;
    Unpacker unpacker{from.cast<py::tuple>()};
    fields(unpacker, out);
    if (unpacker.next != unpacker.in.size()) refuse_pickle();
    return out;
  }
}

/// The parts of a state; throws where there are not so many.
inline const py::tuple& parts_of(const py::tuple& state, std::size_t count) {
  if (state.size() != count) refuse_pickle();
  return state;
}

template <class... T>
void Unpacker::operator()(T&... values) {
  if (next + sizeof...(T) > in.size()) refuse_pickle();
  ((values = unpacked<T>(py::reinterpret_borrow<py::object>(in[next++]))), ...);
}

}  // namespace stepcast::python
