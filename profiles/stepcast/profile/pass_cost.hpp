#pragma once
// PassCost: what one pass over one layer, or the whole update, costs per step: time of the host, time of the device,
// and how much of the device's time goes into which class of kernels.
//
// Invariant: `device` is the time of all kernels, and the classes that are told apart are parts of it; what they leave
// over is of class `other`. So {host 1 ms, device 10 ms, gemm 6 ms, memory 3 ms} has 1 ms of other kernels.
// A class is one line in KernelClass and one in its names. Rules of profiles/kernels may then name it, profiles keep
// its time ("device_<name>_s"; absent is zero), and what-ifs scale it like `other` kernels until they name it, too. Not
// modelled: kernels that are of two classes at once.
#include <stepcast/base/units.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>

namespace [[gnu::visibility("default")]] stepcast {

/// What limits a kernel. The classes before `other` are told apart in costs; collectives are no part of a cost.
enum class KernelClass : std::uint8_t {
  gemm,    ///< matrix products and convolutions
  memory,  ///< moves data: bound by the device's memory
  other,
  collective,
};
inline constexpr std::string_view kernel_class_names[] = {"gemm", "memory", "other", "collective"};
static_assert(std::size(kernel_class_names) == std::size_t(KernelClass::collective) + 1);
[[nodiscard]] constexpr std::string_view name_of(KernelClass kind) { return kernel_class_names[std::size_t(kind)]; }

/// The key of its time in profiles: "device_gemm_s".
[[nodiscard]] inline std::string key_of(KernelClass kind) { return "device_" + std::string(name_of(kind)) + "_s"; }

/// The classes that costs tell apart, in order.
inline constexpr auto classes_apart = [] {
  std::array<KernelClass, std::size_t(KernelClass::other)> classes{};
  for (std::size_t i = 0; i < classes.size(); ++i) classes[i] = KernelClass(i);
  return classes;
}();
[[nodiscard]] constexpr bool is_apart(KernelClass kind) { return kind < KernelClass::other; }

/// A value for each class that costs tell apart.
template <class T>
struct ByKernelClass {
  std::array<T, classes_apart.size()> values{};

  static constexpr ByKernelClass all(const T& value) {
    ByKernelClass same;
    same.values.fill(value);
    return same;
  }
  constexpr T& operator[](KernelClass kind) { return values[std::size_t(kind)]; }
  constexpr const T& operator[](KernelClass kind) const { return values[std::size_t(kind)]; }
  constexpr auto begin() { return values.begin(); }
  constexpr auto end() { return values.end(); }
  constexpr auto begin() const { return values.begin(); }
  constexpr auto end() const { return values.end(); }
  constexpr ByKernelClass& operator+=(const ByKernelClass& more) {
    for (std::size_t i = 0; i < values.size(); ++i) values[i] += more.values[i];
    return *this;
  }
  [[nodiscard]] constexpr T sum() const {
    T all{};
    for (const T& value : values) all += value;
    return all;
  }
  bool operator==(const ByKernelClass&) const = default;
};

/// Seconds per step.
struct PassCost {
  Seconds host;                   ///< time in which the host thread issues it (or computes it, without a device)
  Seconds device;                 ///< summed time of its device work, gaps excluded
  ByKernelClass<Seconds> part{};  ///< of `device`, by class; the rest is of class `other`

  /// Device time of class `other`.
  [[nodiscard]] constexpr Seconds rest() const {
    Seconds left = device;
    for (const Seconds& time : part) left -= time;
    return std::max(Seconds(0), left);
  }
  constexpr PassCost& operator+=(const PassCost& more) {
    host += more.host;
    device += more.device;
    part += more.part;
    return *this;
  }
  constexpr PassCost& operator*=(double factor) {
    host *= factor;
    device *= factor;
    for (Seconds& time : part) time *= factor;
    return *this;
  }
  constexpr PassCost& operator/=(double parts) {
    host /= parts;
    device /= parts;
    for (Seconds& time : part) time /= parts;
    return *this;
  }
  friend constexpr PassCost operator*(PassCost cost, double factor) { return cost *= factor; }
  friend constexpr PassCost operator/(PassCost cost, double parts) { return cost /= parts; }
  bool operator==(const PassCost&) const = default;
};

}  // namespace stepcast
