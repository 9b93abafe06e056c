#include <stepcast/calibration/benchmark_logs.hpp>
#include <stepcast/calibration/calibration.hpp>
#include <stepcast/cluster/fit.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

using namespace stepcast;
using doctest::Approx;

namespace {

std::vector<Bytes> powers_of_two(int from, int to) {
  std::vector<Bytes> sizes;
  for (int i = from; i <= to; ++i) sizes.emplace_back(std::exp2(i));
  return sizes;
}

template <class Model>
std::vector<Seconds> times_of(const std::vector<Bytes>& sizes, const Model& model) {
  std::vector<Seconds> times;
  for (const Bytes m : sizes) times.push_back(model(m));
  return times;
}

const char* const log_head =
    "# nThread 1 nGpus 1 minBytes 8 maxBytes 16 step: 2(factor) warmup iters: 5 iters: 20 validation: 1\n"
    "#\n# Using devices\n"
    "#   Rank  0 Pid  1 on n0 device  0 [0x00] A100\n"
    "#   Rank  1 Pid  2 on n0 device  1 [0x00] A100\n"
    "#\n"
    "#                                                       out-of-place                       in-place\n"
    "#       size         count      type   redop     time   algbw   busbw  error     time   algbw   busbw  error\n"
    "#        (B)    (elements)                       (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)\n";
const char* const log_rows =
    "           8             2     float     sum     8.65    0.00    0.00  0e+00     8.51    0.00    0.00  0e+00\n"
    "     1048576        262144     float     sum    59.46   17.63   17.63  0e+00    60.17   17.43   17.43  0e+00\n";

std::string with_prefix(const std::string& text) {
  std::istringstream lines(text);
  std::string out;
  for (std::string line; std::getline(lines, line);) out += "[1,0]<stdout>:" + line + "\r\n";
  return out;
}

std::string refusal(std::vector<MeasuredCollective> (*read)(std::string_view, std::string_view),
                    const std::string& text) {
  try {
    (void)read(text, "in");
  } catch (const InputError& error) { return error.what(); }
  FAIL_CHECK("accepted: " << text);
  return {};
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// Empty if the file is not there.
std::string shared_text(const std::string& path) {
  std::ifstream file(std::filesystem::path(STEPCAST_SOURCE_DIR) / ".." / "shared" / path, std::ios::binary);
  std::stringstream text;
  if (file) text << file.rdbuf();
  if (text.str().empty()) MESSAGE("skipped: ../shared/" << path << " is not there");
  return text.str();
}

}  // namespace

TEST_CASE("fit: an exact line is found, whatever its scale") {
  std::mt19937_64 random(3);
  std::uniform_real_distribution<double> exponent(-1, 1);
  for (int i = 0; i < 200; ++i) {
    const CostLine line{Seconds(1e-4 * std::pow(10, 2 * exponent(random))), 1e-9 * std::pow(10, 2 * exponent(random))};
    const auto sizes = powers_of_two(3, 30);
    const Fit fit = line_fit(sizes, times_of(sizes, line));
    REQUIRE(fit.pieces.size() == 1);
    CHECK(fit.pieces[0].line.start_up.value() == Approx(line.start_up.value()).epsilon(1e-9));
    CHECK(fit.pieces[0].line.seconds_per_byte == Approx(line.seconds_per_byte).epsilon(1e-9));
    CHECK(fit.rms_relative_error < 1e-9);
    CHECK(piecewise_fit(sizes, times_of(sizes, line)).pieces.size() == 1);
  }
}

TEST_CASE("fit: the relative error is least among neighbouring lines, and neither part is negative") {
  std::mt19937_64 random(4);
  std::normal_distribution<double> noise(0, 0.3);
  const auto sizes = powers_of_two(10, 30);
  for (int i = 0; i < 200; ++i) {
    const double start_up = i % 3 == 0 ? 0 : 1e-4, rate = i % 3 == 1 ? 0 : 1e-9;
    auto times = times_of(
        sizes, [&](Bytes m) { return Seconds((start_up + rate * m.value() + 1e-9) * std::exp(noise(random))); });
    const Fit fit = line_fit(sizes, times);
    const CostLine best = fit.pieces[0].line;
    CHECK(best.start_up.value() >= 0);
    CHECK(best.seconds_per_byte >= 0);
    const auto error = [&](const CostLine& line) {
      double sum = 0;
      for (std::size_t k = 0; k < sizes.size(); ++k) sum += std::pow(line(sizes[k]) / times[k] - 1, 2);
      return sum;
    };
    CHECK(std::sqrt(error(best) / static_cast<double>(sizes.size())) == Approx(fit.rms_relative_error));
    for (const double a : {0.9, 1.0, 1.1}) {
      for (const double b : {0.9, 1.0, 1.1}) {
        CHECK(error(best) <= error({best.start_up * a, best.seconds_per_byte * b}) * (1 + 1e-9));
      }
    }
    CHECK(error(best) <= error({best.start_up + Seconds(1e-7), best.seconds_per_byte}) * (1 + 1e-9));
    CHECK(error(best) <= error({best.start_up, best.seconds_per_byte + 1e-13}) * (1 + 1e-9));
  }
}

TEST_CASE("fit: pieces are found where they are, and only there") {
  const auto sizes = powers_of_two(3, 30);
  const CostLine low{microseconds(10), 1e-9}, high{microseconds(60), 1e-10};
  const Bytes border(std::exp2(17) * 1.5);
  std::mt19937_64 random(5);
  std::normal_distribution<double> noise(0, 0.01);
  const auto times =
      times_of(sizes, [&](Bytes m) { return (m < border ? low(m) : high(m)) * std::exp(noise(random)); });
  const Fit fit = piecewise_fit(sizes, times);
  REQUIRE(fit.pieces.size() == 2);
  CHECK(fit.pieces[0].to.value() == std::exp2(17));
  CHECK(fit.pieces[1].from.value() == std::exp2(18));
  CHECK(fit.rms_relative_error < 0.02);
  CHECK(fit(Bytes(1000)).value() == Approx(low(Bytes(1000)).value()).epsilon(0.03));
  CHECK(fit(Bytes(1e8)).value() == Approx(high(Bytes(1e8)).value()).epsilon(0.03));
  CHECK(piecewise_fit(sizes, times, 1).pieces.size() == 1);
  // The best segmentation in two pieces, by trying all.
  double least = 1e300;
  for (std::size_t cut = 3; cut + 3 <= sizes.size(); ++cut) {
    const std::span<const Bytes> s(sizes);
    const std::span<const Seconds> t(times);
    const Fit left = line_fit(s.first(cut), t.first(cut)), right = line_fit(s.subspan(cut), t.subspan(cut));
    least = std::min(least, std::pow(left.rms_relative_error, 2) * static_cast<double>(cut) +
                                std::pow(right.rms_relative_error, 2) * static_cast<double>(sizes.size() - cut));
  }
  CHECK(std::pow(fit.rms_relative_error, 2) * static_cast<double>(sizes.size()) == Approx(least).epsilon(1e-6));
}

TEST_CASE("fit: the order of the points does not matter; residuals keep it") {
  const std::vector<Bytes> sizes{Bytes(1e6), Bytes(1e3), Bytes(1e9), Bytes(1e4)};
  const std::vector<Seconds> times{Seconds(2e-3), Seconds(1e-4), Seconds(1), Seconds(1e-4)};
  const Fit fit = line_fit(sizes, times);
  REQUIRE(fit.relative_residuals.size() == 4);
  for (std::size_t i = 0; i < 4; ++i) CHECK(fit.relative_residuals[i] == Approx(fit(sizes[i]) / times[i] - 1));
}

TEST_CASE("fit: what cannot be fitted is refused") {
  const std::vector<Bytes> one{Bytes(1)}, two{Bytes(1), Bytes(2)}, zero{Bytes(0), Bytes(2)};
  const std::vector<Seconds> time{Seconds(1)}, times{Seconds(1), Seconds(2)}, none{Seconds(0), Seconds(1)},
      odd{Seconds(NAN), Seconds(1)};
  CHECK_THROWS_AS((void)line_fit(one, time), InputError);
  CHECK_THROWS_AS((void)line_fit({}, {}), InputError);
  CHECK_THROWS_AS((void)line_fit(two, time), InputError);
  CHECK_THROWS_AS((void)line_fit(zero, times), InputError);
  CHECK_THROWS_AS((void)line_fit(two, none), InputError);
  CHECK_THROWS_AS((void)piecewise_fit(two, odd), InputError);
  CHECK(piecewise_fit(two, times).pieces.size() == 1);
  const std::vector<Bytes> same{Bytes(5), Bytes(5)};
  CHECK(std::isfinite(line_fit(same, times)(Bytes(5)).value()));
}

TEST_CASE("nccl-tests: tables, ranks, out-of-place times, with and without a prefix") {
  const std::string log = std::string(log_head) + log_rows;
  for (const std::string& text : {log, with_prefix(log)}) {
    const auto tables = collectives_of_nccl_tests(text, "log");
    REQUIRE(tables.size() == 1);
    CHECK(tables[0].operation == "all_reduce");
    CHECK(tables[0].workers == 2);
    CHECK(tables[0].sizes == std::vector<Bytes>{Bytes(8), Bytes(1048576)});
    CHECK(tables[0].times[1].value() == Approx(59.46e-6));
  }
  // Several runs in one log, the second with the newer columns and another test.
  const std::string newer =
      "# all_gather_perf\n# nThread 1 nGpus 3\n# Using devices\n#  Rank  0 x\n#  Rank  1 x\n#  Rank  2 x\n"
      "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw "
      "#wrong\n"
      "     1048576        262144     float    none      -1    20.5   17.63   17.63      0    60.17   17.43   17.43    "
      "  0\n";
  const auto both = collectives_of_nccl_tests(log + newer, "log");
  REQUIRE(both.size() == 2);
  CHECK(both[1].operation == "all_gather");
  CHECK(both[1].workers == 3);
  CHECK(both[1].times[0].value() == Approx(20.5e-6));
}

TEST_CASE("nccl-tests: damaged logs are refused") {
  const auto nccl_tests = [](std::string_view text, std::string_view source) {
    return collectives_of_nccl_tests(text, source);
  };
  CHECK(contains(refusal(nccl_tests, ""), "an empty file"));
  CHECK(contains(refusal(nccl_tests, "hello\nworld\n"), "no such table"));
  CHECK(contains(refusal(nccl_tests, log_head), "no such table"));
  const std::string log = std::string(log_head) + log_rows;
  CHECK(contains(refusal(nccl_tests, log.substr(0, log.size() - 40)), "in:11"));
  CHECK(contains(refusal(nccl_tests, log.substr(0, log.size() - 40)), "cut off"));
  std::string wrong = log;
  wrong.replace(wrong.find("59.46"), 5, "N/A  ");
  CHECK(contains(refusal(nccl_tests, wrong), "in:11 column time"));
  // Cut anywhere: an error or only whole rows, never a crash.
  for (std::size_t n = 0; n < log.size(); ++n) {
    try {
      for (const auto& table : collectives_of_nccl_tests(log.substr(0, n), "in")) CHECK(table.sizes.size() <= 2);
    } catch (const InputError&) {}
  }
}

TEST_CASE("benchmark logs: sizes, times and rates that nobody can measure are refused by their line") {
  const auto nccl_tests = [](std::string_view text, std::string_view source) {
    return collectives_of_nccl_tests(text, source);
  };
  const auto row = [](const std::string& size, const std::string& time) {
    return std::string(log_head) + log_rows + "     " + size + "        262144     float     sum    " + time +
           "   17.63   17.63  0e+00    60.17   17.43   17.43  0e+00\n";
  };
  CHECK_FALSE(nccl_tests(row("2097152", "100.1"), "in").empty());
  for (const auto& [size, time] :
       {std::pair{"-2097152", "100.1"}, std::pair{"1e30", "100.1"}, std::pair{"0.5", "100.1"},
        std::pair{"2097152", "-100.1"}, std::pair{"2097152", "0"}, std::pair{"2097152", "1e30"},
        std::pair{"2097152", "1e-9"}, std::pair{"1073741824", "1.0"}, std::pair{"99999999999999999999", "1e9"}}) {
    CAPTURE(size);
    CAPTURE(time);
    CHECK(contains(refusal(nccl_tests, row(size, time)), "in:12"));
  }
  CHECK(contains(refusal(nccl_tests, row("1073741824", "1.0")), "100 TB/s"));
  // A rank's part of a small buffer has no bytes: the row says nothing of links, as in logs of many ranks.
  CHECK(nccl_tests(row("0", "7.5"), "in")[0].sizes.size() == 2);
  for (const char* bad : {"-8,5", "0,5", "1e30,5", "8,-5", "8,0", "8,1e30", "1e12,1"}) {
    CAPTURE(bad);
    CHECK(contains(refusal(collectives_of_csv, "bytes,time_us\n1024,5\n" + std::string(bad) + "\n"), "in:3"));
  }
}

TEST_CASE("calibration: measurements of all-gathers alone give links, too") {
  Cluster truth;
  truth.nodes = 8;
  truth.inside = {microseconds(3), BytesPerSecond(2e10)};
  truth.network = {microseconds(17), BytesPerSecond(2.1e9)};
  truth.all_reduce = "ring";
  truth.provenance = {"made"};
  const auto cost = communication_cost(truth);
  MeasuredCollective table{"all_gather", 8, powers_of_two(8, 30), {}, "made"};
  table.times = times_of(table.sizes, [&](Bytes m) { return (*cost)(Operation::all_gather, m); });
  Cluster base = truth;
  base.network = {Seconds(1), BytesPerSecond(1)};
  const Calibration found = calibrated(base, std::vector{table});
  CHECK(found.cluster.network.bandwidth.value() == Approx(2.1e9).epsilon(1e-3));
  CHECK(found.cluster.network.latency.value() == Approx(17e-6).epsilon(1e-3));
  REQUIRE(found.entries.size() == 1);
  CHECK(found.entries[0].by_links.size() == table.sizes.size());
  // A form of an all-reduce alone says nothing of them.
  base.all_reduce = "double_tree";
  try {
    static_cast<void>(calibrated(base, std::vector{table}));
    FAIL_CHECK("accepted");
  } catch (const InputError& error) {
    CHECK(contains(error.what(), "all_gather"));
    CHECK(contains(error.what(), "--collective nccl"));
  }
}

TEST_CASE("nccl-tests: what launchers and libraries print between the lines is no table") {
  const std::string log =
      "Warning: Permanently added 'node-1' to the list of known hosts.\n"
      "0: # nThread 1 nGpus 4 minBytes 8 maxBytes 16\n"
      "0: # Using devices\n"
      "0: #  Rank  0 Group  0 Pid  10 on  node-1 device  0 [0x1b] NVIDIA H100\n"
      "0: #  Rank  1 Group  0 Pid  10 on  node-1 device  1 [0x1b] NVIDIA H100\n"
      "0: #  Rank  2 Group  0 Pid  11 on  node-2 device  0 [0x1b] NVIDIA H100\n"
      "0: #  Rank  3 Group  0 Pid  11 on  node-2 device  1 [0x1b] NVIDIA H100\n"
      "0: node-1:10:20 [0] NCCL INFO NET/OFI Plugin selected\n"
      "0: #       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   "
      "busbw "
      "#wrong\n"
      "10.0.0.1:33 [0] NCCL INFO Channel 00/0\n"
      "0:      1048576        262144     float     sum      -1    20.5   51.15   38.36      0    60.17   17.43   17.43 "
      " "
      "    0\n";
  const auto tables = collectives_of_nccl_tests(log, "log");
  REQUIRE(tables.size() == 1);
  CHECK(tables[0].workers == 4);
  CHECK(tables[0].nodes == 2);
  CHECK(tables[0].devices_per_process == 4);
  REQUIRE(tables[0].sizes.size() == 1);
  CHECK(tables[0].times[0].value() == Approx(20.5e-6));
  // No test is named: 3/4 of the bandwidth is bus bandwidth, which is that of a reduce-scatter.
  CHECK(tables[0].operation == "reduce_scatter");
  CHECK(collectives_of_nccl_tests(log, "runs/allreduce-4.log")[0].operation == "all_reduce");
  CHECK(collectives_of_nccl_tests(log, "log", "broadcast")[0].operation == "broadcast");
  std::string copies = log;
  copies.replace(copies.find("  sum "), 6, " none ");
  try {
    static_cast<void>(collectives_of_nccl_tests(copies, "log"));
    FAIL("a table without a reduction may be of several operations");
  } catch (const InputError& e) {
    CHECK(contains(e.where, "log:11"));
    CHECK(contains(e.hint, "--operation"));
  }
}

TEST_CASE("benchmark logs: IMB-MPI1 and gloo's benchmark") {
  const auto imb = collectives_of_nccl_tests(
      "# Benchmarking Barrier\n# #processes = 16\n #repetitions  t_min[usec]  t_max[usec]  t_avg[usec]\n"
      "  1000  1.0  2.0  1.5\n"
      "# Benchmarking Allreduce\n# #processes = 16\n"
      "       #bytes #repetitions  t_min[usec]  t_max[usec]  t_avg[usec]\n"
      "            0         1000         0.05         0.06         0.05\n"
      "         4096         1000        20.10        22.00        21.00\n"
      "      1048576           40       800.00       900.00       850.00\n"
      "# Benchmarking Allgather\n# #processes = 4\n"
      "       #bytes #repetitions  t_min[usec]  t_max[usec]  t_avg[usec]\n"
      "         1024         1000        20.10        22.00        21.00\n"
      "# Benchmarking PingPong\n# #processes = 2\n       #bytes #repetitions      t[usec]   Mbytes/sec\n"
      "      1048576           40       100.00     10485.76\n",
      "log");
  REQUIRE(imb.size() == 3);
  CHECK(imb[0].operation == "all_reduce");
  CHECK(imb[0].workers == 16);
  REQUIRE(imb[0].sizes.size() == 2);
  CHECK(imb[0].times[1].value() == Approx(850e-6));
  CHECK(imb[1].workers == 4);
  CHECK(imb[1].sizes[0] == Bytes(4096));
  CHECK(imb[2].operation == "send");
  CHECK(measures_the_link(imb[2]));
  CHECK_FALSE(measures_the_link(imb[0]));

  const std::string head =
      "Device:      tcp, pci=0000:00:00.0\nAlgorithm:   allreduce_ring_chunked\n"
      "Options:     processes=4, inputs=1, threads=1\n\n";
  for (const bool elements : {false, true}) {
    const auto gloo = collectives_of_nccl_tests(
        head + (elements ? "   elements" : "       size (B)") +
            "   min (us)   p50 (us)   p99 (us)   max (us)   avg (us)    samples\n"
            "          400         120          135         201         410         140       1000\n"
            "      4000000       15011        15833       17000       18000       15900        200\n",
        "log");
    REQUIRE(gloo.size() == 1);
    CHECK(gloo[0].operation == "all_reduce");
    CHECK(gloo[0].workers == 4);
    CHECK(gloo[0].sizes[0] == Bytes(elements ? 1600 : 400));
    CHECK(gloo[0].times[1].value() == Approx(15833e-6));
  }
  CHECK_THROWS_WITH_AS(static_cast<void>(collectives_of_nccl_tests("Algorithm:   barrier_all_to_one\n", "log")),
                       doctest::Contains("log:1"), InputError);
  CHECK_THROWS_WITH_AS(
      static_cast<void>(collectives_of_csv("op,world,bytes,time_us\nall_reduce,2,8,1\nall_reduce_fp16,2,8,1\n", "c")),
      doctest::Contains("c:3 column op"), InputError);
}

TEST_CASE("benchmark logs: the first nccl-tests, OSU and ib_write_bw") {
  const auto first = collectives_of_nccl_tests(
      "nThread 1 nGpus 2 minBytes 8\n# Using devices\n#   Rank  0 on      box device  0 [0x06] Tesla V100\n"
      "#   Rank  1 on      box device  1 [0x07] Tesla V100\n"
      "#      bytes             N    type      op     time  algbw  busbw      res     time  algbw  busbw      res\n"
      "     1048576        262144   float     sum    0.210   4.99   4.99    0e+00    0.210   4.99   4.99    0e+00\n",
      "log");
  REQUIRE(first.size() == 1);
  CHECK(first[0].workers == 2);
  CHECK(first[0].times[0].value() == Approx(0.21e-3));

  const auto osu = collectives_of_nccl_tests(
      "# OSU MPI-CUDA Allreduce Latency Test v7.3\n# Datatype: MPI_CHAR.\n# Size       Avg Latency(us)\n"
      "8                      20.10\n1048576               120.50\n",
      "log");
  REQUIRE(osu.size() == 1);
  CHECK(osu[0].operation == "all_reduce");
  CHECK(osu[0].workers == 0);
  CHECK(osu[0].times[1].value() == Approx(120.5e-6));
  CHECK(osu[0].provenance == "OSU log log");

  const auto pair = collectives_of_nccl_tests(
      "# OSU MPI-CUDA Latency Test v7.3\n# Size          Latency (us)\n0  4.90\n8  5.00\n1048576  90.00\n", "log");
  REQUIRE(pair.size() == 1);
  CHECK(pair[0].operation == "send");
  CHECK(pair[0].workers == 2);
  CHECK(pair[0].nodes == 2);

  // Of rates only those that the link sets: 10 MB/s of 8 bytes is the sender's.
  const auto rates = collectives_of_nccl_tests(
      "# OSU MPI-CUDA Bandwidth Test v7.3\n# Size      Bandwidth (MB/s)\n8  10.0\n65536  9000.0\n1048576  12000.0\n",
      "log");
  REQUIRE(rates.size() == 1);
  REQUIRE(rates[0].sizes.size() == 2);
  CHECK(rates[0].times[1].value() == Approx(1048576 / 12e9));

  const auto ib = collectives_of_nccl_tests(
      "                    RDMA_Write BW Test\n Number of qps   : 1\n"
      " #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]\n"
      " 65536      5000             23000.00           22000.00           0.351000\n",
      "log");
  REQUIRE(ib.size() == 1);
  CHECK(ib[0].operation == "send");
  CHECK(ib[0].times[0].value() == Approx(65536 / (22000.0 * 1048576)));

  for (const char* title : {"OSU MPI Allgatherv Latency Test v7.3", "OSU MPI Bi-Directional Bandwidth Test v7.3",
                            "OSU MPI Multiple Bandwidth / Message Rate Test v7.3", "OSU MPI Barrier Latency Test v7.3",
                            "OSU MPI Neighbor_allgather Latency Test v7.3"})
    CHECK_THROWS_AS(
        (void)collectives_of_nccl_tests("# " + std::string(title) + "\n# Size  Latency (us)\n8  5.0\n", "log"),
        InputError);
  CHECK_THROWS_AS((void)collectives_of_nccl_tests("# OSU MPI Iallreduce Latency Test v7.3\n"
                                                  "# Size  Overall(us)  Compute(us)  Pure Comm.(us)\n8  9  5  4\n",
                                                  "log"),
                  InputError);
  // Sizes are one rank's part of what all of them gather.
  const std::string gather =
      "# OSU MPI-CUDA Allgather Latency Test v7.3\n# Size       Avg Latency(us)\n8  9.0\n1024  30.0\n";
  CHECK_THROWS_AS((void)collectives_of_nccl_tests(gather, "log"), InputError);
  CHECK_THROWS_AS((void)collectives_of_nccl_tests(gather, "log", {}, 1), InputError);
  const auto gathered = collectives_of_nccl_tests(gather, "log", {}, 16);
  REQUIRE(gathered.size() == 1);
  CHECK(gathered[0].operation == "all_gather");
  CHECK(gathered[0].workers == 16);
  CHECK(gathered[0].sizes == std::vector<Bytes>{Bytes(128), Bytes(16384)});
  CHECK(gathered[0].times[1].value() == Approx(30e-6));
  CHECK(
      collectives_of_nccl_tests("# OSU MPI All-to-All Latency Test v7.3\n# Size  Avg Latency(us)\n8  9\n", "log", {}, 4)
          .front()
          .operation == "all_to_all");
}

TEST_CASE("CSV: columns by name and unit; one table per operation, world and link; medians of repeats") {
  const auto tables = collectives_of_csv(
      "op,world,link_mbit,bytes,ms_median,q1,ms_min,cpu_loop_ms\n"
      "all_reduce,2,1000,1024,0.3,0,0,9\nall_reduce,2,1000,1024,0.1,0,0,9\nall_reduce,2,1000,1024,0.2,0,0,9\r\n"
      "all_reduce,2,1000,512,0.1,0,0,9\n# a "
      "comment\n\nall_reduce,4,1000,1024,0.4,0,0,9\nbroadcast,2,300,1024,5,0,0,9\n",
      "lab.csv");
  REQUIRE(tables.size() == 3);
  CHECK(tables[0].workers == 2);
  CHECK(tables[0].sizes == std::vector<Bytes>{Bytes(512), Bytes(1024)});
  CHECK(tables[0].times[1].value() == Approx(0.2e-3));
  CHECK(contains(tables[0].provenance, "link_mbit 1000"));
  CHECK(tables[1].workers == 4);
  CHECK(tables[2].operation == "broadcast");

  const auto vendor = collectives_of_csv(
      "size(B),count,type,time(ns),busbw(GB/s),time(ns),busbw(GB/s)\n1048576,1,float,92790,1,7,1\n", "v");
  CHECK(vendor[0].workers == 0);
  CHECK(vendor[0].times[0].value() == Approx(92.79e-6));
  CHECK(collectives_of_csv("size_mib,time_us\n2,3\n", "v")[0].sizes[0] == mebibytes(2));
}

TEST_CASE("CSV: wrong columns and cells are refused by line and column") {
  CHECK(contains(refusal(collectives_of_csv, ""), "an empty file"));
  CHECK(contains(refusal(collectives_of_csv, "bytes,time_us\n"), "a header only"));
  CHECK(contains(refusal(collectives_of_csv, "bytes,time\n1,2\n"), "with its unit"));
  CHECK(contains(refusal(collectives_of_csv, "a,b\n1,2\n"), "'bytes' or 'size'"));
  CHECK(contains(refusal(collectives_of_csv, "bytes,time_us\n1,2\n3\n"), "in:3"));
  CHECK(contains(refusal(collectives_of_csv, "bytes,time_us\n1,x\n"), "in:2 column time_us"));
  for (const char* cell : {"0", "-1", "nan", "", "1e999"}) {
    CHECK(contains(refusal(collectives_of_csv, "bytes,time_us\n1," + std::string(cell) + "\n"), "column time_us"));
  }
  CHECK(contains(refusal(collectives_of_csv, "bytes,time_us,world\n1,2,zero\n"), "column world"));
}

TEST_CASE("calibration: links that made the measurements are found again") {
  for (const char* algorithm : {"ring", "hierarchical", "double_tree", "ring_or_tree", "halving_doubling"}) {
    CAPTURE(algorithm);
    Cluster truth;
    truth.name = "truth";
    truth.nodes = 4;
    truth.devices_per_node = 4;
    truth.inside = {microseconds(3), BytesPerSecond(1.5e10)};
    truth.network = {microseconds(17), BytesPerSecond(2.1e9)};
    truth.all_reduce = algorithm;
    std::vector<MeasuredCollective> measured;
    for (const std::int64_t workers : {2, 4, 8, 16}) {
      const auto cost = communication_cost(*resized(truth, workers));
      MeasuredCollective table{"all_reduce", workers, powers_of_two(8, 30), {}, "made"};
      table.times = times_of(table.sizes, [&](Bytes m) { return (*cost)(Operation::all_reduce, m); });
      measured.push_back(table);
    }
    Cluster base = truth;
    base.inside = base.network = {Seconds(1), BytesPerSecond(1)};
    const Calibration found = calibrated(base, measured);
    CHECK(found.cluster.inside.latency.value() == Approx(3e-6).epsilon(1e-3));
    CHECK(found.cluster.inside.bandwidth.value() == Approx(1.5e10).epsilon(1e-3));
    CHECK(found.cluster.network.latency.value() == Approx(17e-6).epsilon(1e-3));
    CHECK(found.cluster.network.bandwidth.value() == Approx(2.1e9).epsilon(1e-3));
    CHECK(found.cluster.relative_error < 1e-3);
    CHECK(found.entries.size() == 4);
    CHECK(found.cluster.tables.size() == 4);
    CHECK(!found.cluster.provenance.empty());
    // What made the measurements is what the links say, also where two forms take turns.
    for (const Calibration::Entry& entry : found.entries) {
      REQUIRE(entry.by_links.size() == entry.measured.sizes.size());
      for (std::size_t i = 0; i < entry.by_links.size(); ++i)
        CHECK(entry.by_links[i] / entry.measured.times[i] == Approx(1).epsilon(5e-3));
    }
  }
}

TEST_CASE("calibration: the provenance of a replaced number goes, that of any other stays") {
  const MeasuredCollective between{"all_reduce", 8, {Bytes(1e3), Bytes(1e6)}, {Seconds(1e-4), Seconds(1e-3)}, "made"};
  const auto lines_of = [](const Cluster& c, std::string_view opening) {
    return std::count_if(c.provenance.begin(), c.provenance.end(),
                         [&](const std::string& line) { return line.starts_with(opening); });
  };
  const Cluster base = cluster_of_flags(8, 4, "10 Gb/s");
  Calibration found = calibrated(base, std::vector{between});
  const Cluster& cluster = found.cluster;
  CHECK(lines_of(base, "network: 10 Gb/s as given") == 1);
  CHECK(lines_of(cluster, "network: 10 Gb/s as given") == 0);
  CHECK(lines_of(cluster, "network: fitted with ring_or_tree") == 1);
  CHECK(lines_of(base, "relative error: assumed") == 1);
  CHECK(lines_of(cluster, "relative error:") == 0);
  CHECK(lines_of(base, "all-reduce: assumed") == 1);
  CHECK(lines_of(cluster, "all-reduce:") == 0);
  // Nothing was measured inside a machine, and a benchmark says nothing of cards and launches.
  CHECK(lines_of(cluster, "inside: assumed") == 1);
  CHECK(lines_of(cluster, "network cards: assumed") == 1);
  CHECK(lines_of(cluster, "message overhead: assumed") == 1);
  // Nor do fits add up.
  found = calibrated(cluster, std::vector{between});
  CHECK(found.cluster.provenance.size() == cluster.provenance.size());
}

TEST_CASE("calibration: tables need no form, all-gathers have none of the fitted links") {
  Cluster base = cluster_of_flags(8, 4, "10 Gb/s");
  base.all_reduce = "table";
  const MeasuredCollective between{"all_reduce", 8, {Bytes(1e3), Bytes(1e6)}, {Seconds(1e-4), Seconds(1e-3)}, "made"};
  MeasuredCollective gather = between;
  gather.operation = "all_gather";
  const Calibration found = calibrated(base, std::vector{between, gather});
  CHECK(found.entries[0].by_links.size() == 2);
  CHECK(found.entries[1].by_links.empty());
  const auto cost = communication_cost(found.cluster);
  REQUIRE(cost);
  CHECK(cost->algorithm() == "table");
  // The cluster of 16 has no table of its own, which is said at once.
  Cluster larger = cluster_of_flags(16, 4, "10 Gb/s");
  larger.all_reduce = "table";
  REQUIRE(!calibrated(larger, std::vector{between}).notes.empty());
  CHECK(contains(calibrated(larger, std::vector{between}).notes.back(), "no measured all_reduce for 16 workers"));
}

TEST_CASE("calibration: what is missing is said, what cannot be used is refused") {
  Cluster base;
  base.name = "base";
  base.nodes = 2;
  base.devices_per_node = 4;
  base.inside = base.network = {microseconds(5), BytesPerSecond(1e9)};
  const MeasuredCollective inside{"all_reduce", 4, {Bytes(1e3), Bytes(1e6)}, {Seconds(1e-4), Seconds(1e-3)}, "made"};
  MeasuredCollective odd = inside, unknown = inside, gather = inside;
  odd.workers = 6;
  unknown.workers = 0;
  gather.operation = "all_gather";
  const Calibration one = calibrated(base, std::vector{inside});
  REQUIRE(one.notes.size() == 1);
  CHECK(contains(one.notes[0], "network link is the one given"));
  CHECK(one.cluster.network.bandwidth == base.network.bandwidth);
  CHECK(contains(calibrated(base, std::vector{unknown}).notes[0], "taken as 8"));
  CHECK_THROWS_AS((void)calibrated(base, std::vector{odd}), InputError);
  CHECK_FALSE(calibrated(base, std::vector{gather}).entries.front().by_links.empty());
  gather.operation = "send";  // of which a ring says nothing
  CHECK_THROWS_AS((void)calibrated(base, std::vector{gather}), InputError);
  CHECK_THROWS_AS((void)calibrated(base, {}), InputError);
  // One size cannot tell start-up from bandwidth.
  const MeasuredCollective single{"all_reduce", 4, {Bytes(1e3)}, {Seconds(1e-4)}, "made"};
  CHECK_THROWS_AS((void)calibrated(base, std::vector{single}), InputError);
  CHECK_THROWS_AS((void)calibrated(base, std::vector{inside, single}), InputError);
  // The same measurement twice may be two networks.
  CHECK(one.notes.size() + 1 == calibrated(base, std::vector{inside, inside}).notes.size());
  CHECK(contains(calibrated(base, std::vector{inside, inside, inside}).notes[0], "measured more than once"));
}

TEST_CASE("calibration: A100 logs up to 16 GPUs against the 64 that were held out") {
  std::vector<MeasuredCollective> measured;
  for (const int workers : {2, 4, 8, 16, 64}) {
    const std::string text = shared_text("data/nccl-tests-a100/nccl_" + std::to_string(workers) + ".log");
    if (text.empty()) return;
    const auto tables = collectives_of_nccl_tests(text, "nccl_" + std::to_string(workers));
    REQUIRE(tables.size() >= 1);
    CHECK(tables[0].workers == workers);
    measured.push_back(tables[0]);
  }
  const MeasuredCollective held_out = measured.back();
  measured.pop_back();
  const Cluster* shipped = shipped_cluster("8x8-a100-200gbib");
  REQUIRE(shipped);
  Cluster base = *shipped;
  base.tables.clear();
  const Calibration found = calibrated(base, measured);
  // The shipped numbers are the fitted ones.
  CHECK(found.cluster.inside.bandwidth.value() == Approx(shipped->inside.bandwidth.value()).epsilon(1e-3));
  CHECK(found.cluster.network.bandwidth.value() == Approx(shipped->network.bandwidth.value()).epsilon(1e-3));
  CHECK(found.cluster.network.latency.value() == Approx(shipped->network.latency.value()).epsilon(1e-3));
  const auto cost = communication_cost(*resized(*shipped, 64));
  REQUIRE(cost);
  for (std::size_t i = 0; i < held_out.sizes.size(); ++i) {
    const double error = (*cost)(Operation::all_reduce, held_out.sizes[i]) / held_out.times[i] - 1;
    if (held_out.sizes[i] >= mebibytes(128)) CHECK(std::fabs(error) < 0.14);
    if (held_out.sizes[i] >= mebibytes(1)) CHECK(std::fabs(error) < 0.45);
  }
}

TEST_CASE("calibration: the lab's quiet table obeys the shaped line from 1 MiB up") {
  const std::string text = shared_text("lab/allreduce_calibration_quiet.csv");
  if (text.empty()) return;
  const auto tables = collectives_of_csv(text, "quiet");
  CHECK(tables.size() == 4);
  for (const MeasuredCollective& t : tables) {
    CHECK(t.sizes.size() == 6);
    if (t.workers != 2) continue;
    const bool fast = contains(t.provenance, "3000");
    const Fit fit = line_fit(std::span(t.sizes).subspan(2), std::span(t.times).subspan(2));
    CHECK(fit.rms_relative_error < 0.02);
    CHECK(1 / fit.pieces[0].line.seconds_per_byte == Approx(0.956 * (fast ? 3.75e8 : 1.25e8)).epsilon(0.03));
  }
}
