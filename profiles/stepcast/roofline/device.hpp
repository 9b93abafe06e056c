#pragma once
// Device: what one accelerator does in a second, as a roofline with an efficiency curve.
//
// A matrix product takes its operations at the peak rate, times an efficiency that falls where the tiles are small, but
// never less than its operands take to cross the memory; the products inside fused attention have efficiencies of their
// own, since softmax stands between them; every other operator takes its bytes at the memory's bandwidth; each kernel
// takes at least `kernel_floor`, and the host needs `issue` for it, so that a step of small kernels is launch-bound.
// A processor that trains without an accelerator is a device `on_host`: the thread that issues an operator computes it,
// so that both times add up and all of it is host time.
// All numbers are calibrated, from a trace or from a few measured steps (device_fit.hpp), and say so in `provenance`.
// Invariants (checked): rates > 0, 0 < efficiency <= 1, times >= 0. Not modelled: clocks that fall with temperature,
// kernels that run beside one another, caches (also those of a processor).
#include <stepcast/base/error.hpp>
#include <stepcast/base/units.hpp>
#include <stepcast/profile/profile.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace [[gnu::visibility("default")]] stepcast {

/// `batch` products of an m x k with a k x n matrix.
struct MatrixProduct {
  double batch = 1, m = 0, n = 0, k = 0;
  double repeated = 0;  ///< elements of each product's operands that a convolution meets again, in a cache
  [[nodiscard]] double operations() const { return 2 * batch * m * n * k; }
  [[nodiscard]] double operand_elements() const { return batch * (m * k + k * n + m * n - repeated); }
};

/// Kernels of fused attention that differ in what they reach: FlashAttention 1 (and its ports to Triton, which programs
/// of 2022 and 2023 ran), 2 (what PyTorch's own attention runs), 3, and cuDNN's (what Transformer Engine, and so
/// Megatron-LM, runs on current devices).
enum class AttentionKernel : std::uint8_t { flash1, flash2, flash3, cudnn };
inline constexpr std::size_t attention_kernel_count = 4;
[[nodiscard]] std::string_view name_of(AttentionKernel);  ///< "flash2"
/// Shares of the peak that it reaches, in each direction; 0: not known.
struct AttentionRate {
  double forward = 0, backward = 0;
};

struct Device {
  std::string name;                      ///< "NVIDIA A100-SXM4-80GB"
  Bytes memory;                          ///< 0 = unknown
  BytesPerSecond memory_bandwidth;       ///< as reached by memory-bound kernels
  BytesPerSecond cast_bandwidth{};       ///< of kernels that write four bytes for two they read; 0: memory_bandwidth
  std::array<double, 13> matrix_rate{};  ///< operations per second of matrix products, by DataType; 0 = unknown
  double matrix_efficiency = 1;          ///< largest share of the peak that a large product reaches
  /// By DataType, what products of it reach of their own peak over what `matrix_efficiency` says; 0: the same.
  std::array<double, 13> relative_efficiency{};
  double half_m = 0, half_n = 0, half_k = 0;  ///< extents at which the efficiency along one dimension is a half of that
  double half_output = 0;                     ///< elements of all results at which tiles occupy a half of the device
  /// Shares of the peak that fused attention reaches, in its forward and its backward kernel; 0: as other products.
  double attention_forward = 0, attention_backward = 0;
  std::array<AttentionRate, attention_kernel_count> attention_kernels{};  ///< the same of kernels by name
  Seconds kernel_floor;  ///< the time of the shortest kernel, with the gap to the next one
  Seconds issue;         ///< host time per kernel
  /// The host waits for every kernel before it launches the next one (CUDA_LAUNCH_BLOCKING=1). A property of a job
  /// (launch=blocking of its model), not of a device in a file.
  bool launch_blocking = false;
  bool on_host = false;            ///< the host's own processor: no stream runs beside the thread that computes
  double relative_error = 0;       ///< rms residual of measured steps, in every interval; 0: no step of it was measured
  bool products_measured = false;  ///< matrix_efficiency and the half extents are of products that were measured alone
  /// How many measured steps of the job that is asked about corrected it (device_fit.hpp); of no device in a file.
  std::size_t corrected_by = 0;
  std::vector<std::string> provenance;
};

/// Returns `device` if it satisfies the invariants above, else throws InputError.
[[nodiscard]] Device checked(Device device, std::string_view source);
/// 0 < share of `matrix_rate` <= 1 that products of this shape reach: matrix_efficiency times, for each extent x with
/// half extent h, x / (x + h); likewise for the elements of all results, batch m n, with half_output.
[[nodiscard]] double matrix_efficiency(const Device&, const MatrixProduct&);
/// Device time of one kernel. Throws InputError where the rate for `dtype` is unknown.
[[nodiscard]] Seconds matrix_time(const Device&, DataType dtype, const MatrixProduct&);
/// Of a kernel by name, or of what the device's own numbers are of where none is named or its are not known.
[[nodiscard]] AttentionRate attention_rate(const Device&, std::optional<AttentionKernel>);
/// Device time of one product inside a kernel of fused attention that reaches `share` of the peak; as matrix_time where
/// that is not known (0).
[[nodiscard]] Seconds attention_time(const Device&, DataType dtype, const MatrixProduct&, double share);
/// Device time of `kernels` memory-bound kernels that move `traffic` between them.
[[nodiscard]] Seconds memory_time(const Device&, Bytes traffic, double kernels = 1);
/// Device time of a kernel that reads two-byte numbers and writes them in four bytes, `traffic` both.
[[nodiscard]] Seconds widening_time(const Device&, Bytes traffic);

/// What stands behind its rates where nothing is known of the job.
[[nodiscard]] RatesOf rates_of(const Device&);

/// What an answer assumes whose times are this device's: "nothing of this model was measured: all times are those of
/// the roofline of NVIDIA H200", or of one that measured steps corrected.
[[nodiscard]] std::string source_of_times(const Device&);

/// JSON with schema "stepcast.device/1"; quantities are unit strings. Reads back to the same value.
[[nodiscard]] std::string json_of(const Device&);
[[nodiscard]] Device device_of_json(std::string_view text, std::string_view source);
/// Devices that the program carries (profiles/devices/*.json).
[[nodiscard]] const std::vector<Device>& shipped_devices();
/// What users call them, in the same order: "h100-sxm5-80gb".
[[nodiscard]] std::vector<std::string> shipped_device_names();
/// By its name, or by what users call it.
[[nodiscard]] const Device* shipped_device(std::string_view name);

}  // namespace stepcast
