"""Small files of every format but Kineto's, as their writers lay them out; all of them are made up."""
import json
import pathlib
import sqlite3
import tempfile


def compact(value) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


# ---- timelines of tensors and of frameworks: Chrome traces ----

def horovod() -> dict[str, bytes]:
    def all_reduce(pid: int, at: int) -> list[dict]:
        return [{"ph": "B", "name": "NEGOTIATE_ALLREDUCE", "ts": at, "pid": pid},
                {"ph": "X", "name": "1", "ts": at + 2, "pid": pid, "dur": 0},
                {"ph": "X", "name": "0", "ts": at + 9, "pid": pid, "dur": 0}, {"ph": "E", "ts": at + 10, "pid": pid},
                {"ph": "B", "name": "ALLREDUCE", "ts": at + 10, "pid": pid},
                {"ph": "B", "name": "QUEUE", "ts": at + 10, "pid": pid}, {"ph": "E", "ts": at + 15, "pid": pid},
                {"ph": "B", "name": "NCCL_ALLREDUCE", "ts": at + 15, "pid": pid}, {"ph": "E", "ts": at + 35, "pid": pid},
                {"ph": "E", "ts": at + 36, "pid": pid, "args": {"dtype": "float32", "shape": "[10, 4]"}}]

    names = [{"name": "process_name", "ph": "M", "pid": pid, "args": {"name": f"grad/{pid}"}} for pid in (1, 2)]
    steps = [event for step in range(4) for pid in (2, 1) for event in all_reduce(pid, 100 + 1000 * step + 40 * pid)]
    clock = {"name": "process_name", "ph": "M", "pid": 0, "args": {"start_time_since_epoch_in_micros": 1633399518104473}}
    cycle = {"name": "CYCLE_START", "ph": "i", "ts": 7, "s": "g"}
    return {"open.json": compact(names + all_reduce(1, 100) + all_reduce(2, 120))[:-1] + b",\n",
            "steps.json": compact([clock, cycle] + names + steps[:28])}


def bytescheduler() -> dict[str, bytes]:
    def slices(pid: int, name: str, start: int, end: int) -> list[dict]:
        return [{"ph": "B", "pid": pid, "ts": start, "name": name}, {"ph": "E", "pid": pid, "ts": end, "name": name}]

    events = [{"ph": "M", "args": {"name": "conv1_weight"}, "pid": 0, "name": "process_name"}]
    events += slices(0, "INITCOMMUNICATION", 10, 20) + slices(0, "PULLCOMMUNICATION", 15, 40)
    for step in range(3):
        events += slices(0, "PUSH_PULLQUEUE", 100 + 99 * step, 130 + 99 * step)
        events += slices(0, "PUSH_PULLCOMMUNICATION", 130 + 99 * step, 180 + 99 * step)
    over_horovod = slices(0, "ALLREDUCEQUEUE", 100, 130) + slices(0, "ALLREDUCECOMMUNICATION", 130, 180)
    return {"open.json": compact(events)[:-1] + b", ", "allreduce.json": compact(over_horovod)}


def byteps() -> dict[str, bytes]:
    tensor = "Comm.byteps.gradient_0"

    def row(name: str, thread: str, at: int, duration: int) -> dict:
        return {"ph": "X", "args": {"name": tensor}, "pid": tensor, "name": name, "ts": at, "dur": duration, "tid": thread}

    stages = ("COORDINATE_REDUCE", "REDUCE", "COPYD2H", "PUSH", "PULL", "COPYH2D", "BROADCAST", "SHUFFLE")
    rows = [row(tensor, "total", 100 * step, 60) for step in range(3)]
    rows += [row(f"{tensor}.{stage}", "26148864", 100 * step + 5 * i, 4) for step in range(2) for i, stage in
             enumerate(stages)]
    return {"comm.json": compact({"traceEvents": rows, "displayTimeUnit": "ms"})}


def mxnet() -> dict[str, bytes]:
    def mark(phase: str, name: str, pid: int, thread: int, at: int) -> dict:
        return {"name": name, "cat": "operator", "ph": phase, "ts": at, "pid": pid, "tid": thread}

    events = [{"ph": "M", "args": {"name": name}, "pid": pid, "name": "process_name"}
              for pid, name in enumerate(("cpu/0", "gpu/1", "cpu pinned/"))]
    for i, name in enumerate(("Convolution", "_backward_Convolution", "KVStoreDistDefaultPush", "KVStorePull")):
        pid, thread = i % 2, 9223372036854775809 + i % 3
        events += [mark("B", name, pid, thread, 10 * i), mark("E", name, pid, thread, 10 * i + 8)]
    events.append({**mark("X", "Copy", 2, 7, 50), "dur": 4})
    for phase, at in (("b", 60), ("e", 70), ("(", 70), (")", 80)):
        events.append({**mark(phase, "step 1", 9, 7, at), "cat": "training", "id": 7})
    text = compact({"traceEvents": events, "displayTimeUnit": "ms"})
    return {"finished.json": text, "open.json": text[:text.rindex(b"]")]}


def composer() -> dict[str, bytes]:
    def phase(name: str, start: int, end: int) -> list[dict]:
        common = {"name": name, "cat": "event", "pid": 0, "tid": 1, "args": {"epoch": 0, "batch": 1}}
        return [{**common, "ph": "B", "ts": start}, {**common, "ph": "E", "ts": end}]

    events = [{"name": "process_name", "ph": "M", "pid": 0, "args": {"name": "Rank 0 training loop process"}},
              {"name": "global_rank", "ph": "M", "pid": 0, "args": {"value": 0}}]
    for step in range(3):
        at = 1000 * step
        events += phase("dataloader/train", at, at + 50)
        begin, end = phase("event/batch", at + 60, at + 900)
        events += [begin] + phase("event/forward", at + 100, at + 300) + phase("event/backward", at + 320, at + 700) + [end]
    kernel = {"name": "aten::mm", "cat": "cpu_op", "ph": "X", "ts": 5, "dur": 2, "pid": 1, "tid": 8}
    other = [{**event, "pid": 1, "args": {**event["args"], "value": 1}} for event in events]
    return {"open.json": compact(events)[:-1], "merged.json": compact(events + other + [kernel])}


def operation_timeline() -> dict[str, bytes]:
    def operation(kind: str, pid: int, thread: int, start: float, duration: float, micro_batch: int) -> dict:
        return {"name": kind, "cat": kind, "pid": pid, "tid": thread, "ts": start, "dur": duration, "ph": "X",
                "args": {"step": 16, "model_chunk": 0, "mb_id": micro_batch, "seq_id": 0}}

    events = [operation("forward-compute", 0, 0, 1000.5, 200, 0), operation("forward-send", 0, 1, 1200.5, 10, -1),
              operation("forward-compute", 0, 10, 1210.5, 300.25, 0), operation("forward-recv", 0, 11, 1200, 10, -1),
              operation("grads-reduce-scatter", 1, 5, 1600, 100, -1)]
    names = {(0, 0): "PP rank 0, TP rank 0, compute", (0, 1): "PP rank 0, TP rank 0, pp-comm",
             (0, 10): "PP rank 1, TP rank 0, compute", (1, 5): "PP rank 0, TP rank 0, dp-comm"}
    return {"two-stages.json": compact(events + [{"name": "thread_name", "pid": pid, "tid": thread, "ph": "M",
                                                  "args": {"name": name}} for (pid, thread), name in names.items()])}


def rocprof() -> dict[str, bytes]:
    events: list[dict] = [{}]
    events += [{"args": {"name": name}, "ph": "M", "pid": pid, "name": "process_name", "sort_index": 0}
               for pid, name in ((2, "CPU HIP API"), (1, "COPY"), (8, "GPU2"))]
    for pid, thread, name, begin, end in ((2, 517, "hipLaunchKernel", 5000100, 5009900),
                                          (8, 1, "elementwise_kernel", 5020661, 5025941),
                                          (1, 1, "CopyHostToDevice", 5030000, 5031000)):
        events.append({"ph": "X", "name": name, "pid": str(pid), "tid": str(thread), "ts": str(begin // 1000), "dur": "5",
                       "args": {"BeginNs": str(begin), "EndNs": str(end), "dev-id": "2", "queue-id": "4",
                                "DurationNs": str(end - begin)}})
    for phase, pid, thread, at in (("s", 2, 517, "5004"), ("t", 8, 1, "5020")):
        events.append({"ts": at, "ph": phase, "cat": "DataFlow", "id": 7, "pid": pid, "tid": thread, "name": "dep"})
    return {"results.json": compact({"traceEvents": events, "otherData": {"CMD": "rocminfo"}})}


def rocprofv3() -> dict[str, bytes]:
    def record(start: int, end: int, **rest) -> dict:
        return {"start_timestamp": start, "end_timestamp": end, "correlation_id": {"internal": 3}, **rest}

    dispatch = {"agent_id": {"handle": 11}, "queue_id": {"handle": 16}, "kernel_id": 8}
    return {"results.json": compact({"rocprofiler-sdk-tool": [{
        "metadata": {"pid": 908},
        "agents": [{"id": {"handle": 10}, "type": 1, "name": "EPYC"},
                   {"id": {"handle": 11}, "type": 2, "name": "gfx", "product_name": "GPU",
                    "mem_banks": [{"size_in_bytes": 77}]}],
        "strings": {"buffer_records": [{"kind": "NONE", "operations": []},
                                       {"kind": "HIP", "operations": ["none", "hipLaunchKernel"]}],
                    "marker_api": [{"key": 3, "value": "step 1"}]},
        "kernel_symbols": [{"kernel_id": 8, "formatted_kernel_name": "gemm<float>"}],
        "buffer_records": {
            "kernel_dispatch": [record(50, 90, dispatch_info=dispatch, stream_id={"handle": 5}),
                                record(95, 96, dispatch_info=dispatch)],
            "memory_copy": [record(97, 99, kind=2, operation=1, dst_agent_id={"handle": 11}, stream_id={"handle": 5})],
            "hip_api": [record(10, 20, kind=1, operation=1, thread_id=908)],
            "marker_api": [record(5, 99, kind=1, operation=1, thread_id=908)],
            "memory_allocation": [{"start_timestamp": 1, "end_timestamp": 2}]}}]})}


def xla_json() -> dict[str, bytes]:
    def name(what: str, pid: int, thread: int, text: str) -> dict:
        return {"ph": "M", "pid": pid, "tid": thread, "name": what, "args": {"name": text}}

    def slice_(pid: int, thread: int, text: str, start: float, duration: float, **args) -> dict:
        return {"ph": "X", "pid": pid, "tid": thread, "ts": start, "dur": duration, "name": text, "args": args}

    host = [name("process_name", 49, 0, "/host:CPU"), name("thread_name", 49, 5, "python3")]
    gpu = [name("process_name", 1, 0, "/device:GPU:0"), name("thread_name", 1, 7, "Stream #7(Compute)"),
           name("thread_name", 1, 101, "Steps")]
    tpu = [name("process_name", 3, 0, "/device:TPU:0"), name("thread_name", 3, 3, "XLA Ops"),
           name("thread_name", 3, 2, "XLA Modules")]
    on_gpu = [slice_(49, 5, "train", 0, 50, step_num="4"), slice_(49, 5, "cuLaunchKernel", 10.25, 2, correlation_id="18"),
              slice_(1, 7, "fusion_3", 13.0004, 4.0001, correlation_id="18", hlo_op="fusion.3"),
              slice_(1, 7, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 20, 5, hlo_op="all-reduce.1"),
              slice_(1, 101, "12", 9, 30), slice_(49, 5, "$train.py:3 loop", 1, 90)]
    pieces = [slice_(1, 101, "train 4", 9, 10), slice_(1, 101, "train 5", 19, 5), slice_(1, 101, "train 4", 25, 9)]
    long_name = "%all-reduce.2 = bf16[8,128]{1,0:T(8,128)} all-reduce(bf16[8,128] %p), replica_groups={}"
    on_tpu = [slice_(3, 2, "jit_step", 0, 100), slice_(3, 3, "while.1", 10, 50), slice_(3, 3, "fusion.1", 10, 20),
              slice_(3, 3, "all-reduce.2", 30, 30, long_name=long_name)]
    start = "%all-gather-start.1 = (f32[256]{0}, f32[1024]{0}) all-gather-start(f32[256]{0} %p.3)"
    done = "%all-gather-done.9 = f32[1024]{0} all-gather-done((f32[256]{0}, f32[1024]{0}) %all-gather-start.1)"
    halves = [slice_(3, 3, "all-gather-start.1", 10, 0.001, long_name=start), slice_(3, 3, "fusion.1", 11, 50),
              slice_(3, 3, "all-gather-done.9", 61, 39, long_name=done),
              name("process_name", 4, 0, "/device:TPU:0 SparseCore 1"), slice_(4, 1, "embedding", 12, 5)]

    def trace(events: list[dict]) -> bytes:
        return compact({"displayTimeUnit": "ns", "metadata": {"highres-ticks": True}, "traceEvents": [*events, {}]})

    return {"gpu.json": trace(gpu + host + on_gpu), "tpu.json": trace(tpu + on_tpu), "halves.json": trace(tpu + halves),
            "pieces.json": trace(gpu + on_gpu[2:4] + pieces)}


# ---- other JSON ----

def pipeline_timestamps() -> dict[str, bytes]:
    def iteration(total: float) -> dict:
        return {"total": total, "memory": 3.5, "fwd_start": [0.5, 3], "fwd_end": [2.5, 4], "bwd_start": [5],
                "bwd_end": [9]}

    lists = {"fwd_minibatch": [0, 0], "fwd_chunk": [0, 1], "bwd_minibatch": [1], "bwd_chunk": [], "wgrad_start": [9],
             "wgrad_end": [10], "activation_memory_usage": [0.5]}
    return {"stage.json": compact({"2": iteration(10.5), "1": iteration(20), "3": iteration(11)}),
            "chunks.json": compact({"1": {**iteration(20), **lists}})}


def execution_trace() -> dict[str, bytes]:
    x, y, z = [5, 6, 0, 24, 4, "cuda:0"], [7, 8, 0, 64, 4, "cuda:0"], [9, 10, 0, 12, 4, "cuda:0"]
    record = [[z], 33, ["0", "default_pg"], 3, "allreduce", [], [], 0, 1, 8]
    # id, parent, record function, thread, name, inputs, shapes, types, outputs; children before their parents
    nodes = [(3, 1, 0, 1, "[pytorch|profiler|execution_trace|thread]", [], [], [], []),
             (5, 4, 2, 1, "aten::mm", [x], [[8, 3]], ["Tensor(float)"], [y]),
             (4, 3, 1, 1, "aten::linear", [x], [[8, 3]], ["Tensor(float)"], [y]),
             (6, 3, 3, 1, "aten::view", [y, [4]], [[64], [[]]], ["Tensor(float)", "GenericList[Int]"], [y]),
             (9, 3, 5, 1, "record_param_comms", record, [[[12]], [], [[], []], [], [], [], [], [], [], []],
              ["GenericList[Tensor(float)]", "Int", "Tuple[String,String]", "Int", "String", "", "", "Int", "Int", "Int"],
              [[z]]),
             (2, 1, 0, 0, "[pytorch|profiler|execution_trace|process]", [], [], [], [])]

    def flat(i, parent, function, thread, name, inputs, shapes, types, outputs) -> dict:
        return {"name": name, "id": i, "rf_id": function, "parent": parent, "seq_id": -1, "scope": 0, "tid": thread,
                "fw_tid": 0, "op_schema": "", "inputs": inputs, "input_shapes": shapes, "input_types": types,
                "outputs": outputs, "output_shapes": [], "output_types": []}

    def nested(i, parent, function, thread, name, inputs, shapes, types, outputs) -> dict:
        collective = {"collective_name": "allreduce", "dtype": "Float", "in_msg_nelems": 12, "out_msg_nelems": 12,
                      "in_split_size": "[]", "out_split_size": "[]", "pg_name": "0", "group_size": 8}
        attributes = {"rf_id": function, "seq_id": -1, "fw_tid": 0, "tid": thread, "op_schema": ""}
        if name == "record_param_comms":
            attributes |= collective
        return {"id": i, "name": name, "ctrl_deps": parent, "inputs": {"values": inputs, "shapes": shapes, "types": types},
                "outputs": {"values": outputs, "shapes": [], "types": []},
                "attrs": [{"name": key, "type": "string" if isinstance(value, str) else "int64", "value": value}
                          for key, value in attributes.items()]}

    def document(schema: str, lay_out) -> bytes:
        return compact({"schema": schema, "pid": 17, "time": "", "start_ts": 1, "nodes": [lay_out(*n) for n in nodes],
                        "finish_ts": 2})

    return {"flat.json": document("1.0.1", flat), "nested.json": document("1.1.1-chakra.0.0.4", nested)}


def chakra_json() -> dict[str, bytes]:
    nodes = [{"Id": 1, "Name": "aten::mm(0)", "NodeType": 4, "ctrlDeps": [], "data_deps": [], "runtime": 318,
              "is_cpu_op": True},
             {"Id": 2, "Name": "gemm", "NodeType": 4, "ctrlDeps": [1], "data_deps": [1], "runtime": 90, "is_cpu_op": False},
             {"Id": 3, "Name": "all-reduce", "NodeType": 7, "ctrlDeps": [2], "data_deps": [2], "runtime": 50,
              "is_cpu_op": False, "comm_type": 0, "comm_size": 4096, "involved_dim": [True]}]
    return {"graph.json": compact({"workload_graph": nodes, "workload_name": "w", "ngpus": 8})}


# ---- protobuf: Chakra and XLA's planes ----

def varint(value: int) -> bytes:
    out = bytearray()
    while value >= 128:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out) + bytes([value])


def field(number: int, value: int | bytes | str) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    text = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(text)) + text


def chakra() -> dict[str, bytes]:
    def message(fields: bytes) -> bytes:
        return varint(len(fields)) + fields

    def attribute(name: str, kind: int, value: int | bytes | str) -> bytes:
        return field(10, field(1, name) + field(kind, value))

    boolean, int64, text, booleans = 27, 9, 29, 28
    metadata = message(field(1, "0.0.4"))

    def compute(number: int, microseconds: int, host: bool, more: bytes = b"") -> bytes:
        return message(field(1, number) + field(2, f"op {number}") + field(3, 4) + field(7, microseconds) +
                       attribute("is_cpu_op", boolean, host) + more)

    all_reduce = message(field(1, 4) + field(2, "All-Reduce") + field(3, 7) + field(5, varint(3)) +
                         attribute("is_cpu_op", boolean, 0) + attribute("comm_type", int64, 0) +
                         attribute("comm_size", int64, 1 << 20) + attribute("pg_name", text, "0") +
                         attribute("involved_dim", booleans, field(1, b"\1")))
    send = message(field(1, 5) + field(2, "send") + field(3, 5) + field(7, 9) + field(4, varint(4)) +
                   attribute("comm_size", int64, 64) + attribute("comm_dst", int64, 1) + attribute("comm_tag", int64, 2))
    return {"laid-out.et": metadata + compute(1, 10, True) + compute(2, 20, True) +
                           compute(3, 30, False, field(5, varint(1))) + all_reduce + send,
            "started.et": metadata + compute(1, 10, True, field(6, 500)) + compute(2, 5, True, field(6, 700)),
            "microbenchmark.et": metadata + all_reduce}


def xplane() -> dict[str, bytes]:
    def named(number: int, key: int, name: str) -> bytes:
        return field(number, field(1, key) + field(2, field(1, key) + field(2, name)))

    def event(metadata: int, offset_ps: int, duration_ps: int, stats: bytes = b"") -> bytes:
        return field(4, field(1, metadata) + field(2, offset_ps) + field(3, duration_ps) + stats)

    def line(number: int, name: str, start_ns: int, events: bytes) -> bytes:
        return field(3, field(1, number) + field(2, name) + field(3, start_ns) + events)

    def plane(name: str, body: bytes) -> bytes:
        return field(1, field(1, 9) + field(2, name) + body)

    host = plane("/host:CPU", line(11, "python", 1000, event(1, 500, 2000000, field(4, field(1, 1) + field(4, 18)))) +
                 named(4, 1, "cudaLaunchKernel") + named(5, 1, "correlation_id"))
    gpu = plane("/device:GPU:3", line(17, "Stream #17(Kernel)", 2000,
                                      event(4, 1499, 10000, field(4, field(1, 2) + field(3, 18))) +
                                      event(5, 20000, 9000)) +
                named(4, 4, "fusion_1") + named(4, 5, "ncclDevKernel_AllReduce_Sum_f32_RING_LL") +
                named(5, 2, "correlation_id") + named(5, 3, "memory_size") + field(6, field(1, 3) + field(3, 1 << 20)))
    tpu = plane("/device:TPU:0", line(1, "Steps", 0, event(1, 0, 5000000)) +
                line(3, "XLA Ops", 0, event(2, 1000, 2000000) + event(3, 2500000, 1000000)) +
                named(4, 1, "7") + named(4, 2, "fusion.1") + named(4, 3, "all-reduce.2"))
    start = "%all-gather-start.1 = (f32[256]{0}, f32[1024]{0}) all-gather-start(f32[256]{0} %p.3)"
    halves = plane("/device:TPU:0", line(3, "XLA Ops", 0, event(1, 1000, 0) + event(2, 2000, 9000)) +
                   line(4, "Async XLA Ops", 0,
                        event(1, 1000, 10000, field(4, field(1, 1) + field(5, "all-gather-done.1")))) +
                   named(4, 1, start) + named(4, 2, "all-gather-done.1") + named(5, 1, "hlo_op"))
    return {"gpu.xplane.pb": host + gpu + field(3, "buffer overflow"), "tpu.xplane.pb": tpu, "halves.xplane.pb": halves}


# ---- tables ----

def layer_csv() -> dict[str, bytes]:
    return {"comments.csv": b"# model: net\n# batch: 32\n# order: backward\nname,forward_ms,backward_ms,bytes\n"
                            b"\"conv1, 7x7\",0.31,0.62,37632\nfc,0.1,0.2,4096\n",
            "switchml.csv": b"layer_index,numel,forward_pass_ns,backward_pass_ns\n1,1000,200000,400000\n0,64,1000,null\n",
            "units.csv": b"layer;fwd;bwd;numel;dtype\na;0.3 ms;600 us;64;float16\na;0.3 ms;600 us;8;float16\nb;1 s;2 s;0;\n",
            "spreadsheet.csv": "sep=;\nstep;layer_id;name;type;forward (µs);backward [µs];numel;bytes\n"
                               "7;0;conv;Conv2d;100;200;10;40\n7;1;fc;Linear;1;2;;8\n7;;Total;;101;202;;48\n".encode()}


def pipedream() -> dict[str, bytes]:
    def node(number: int, what: str, forward: float, backward: float, activation: str, size: float) -> str:
        return (f"node{number} -- {what} -- forward_compute_time={forward}, backward_compute_time={backward}, "
                f"activation_size={activation}, parameter_size={size}\n")

    graph = (node(1, "Input", 0, 0, "0.0", 0) + node(4, "Conv2d(3, 64, kernel_size=(3, 3))", 5.872, 11.246, "822083584.0", 147712) +
             node(5, "LSTM(8, 8)", 1, 2, "[6291456.0; 131072.0]", 64) + "\tnode1 -- node4\n\tnode4 -- node5\n")
    stages = graph.replace("=0\n", "=0 -- stage_id=0\n").replace("=64\n", "=64 -- stage_id=1\n")
    return {"graph.txt": graph.encode(), "stages.txt": stages.encode()}


def triosim() -> dict[str, bytes]:
    operators = ("OperatorID,OperatorName,Operator_input,Operator_output,Operator_cudatime,Operator_cudatimenooverlap,"
                 "InputSize,OutputSize,gpuid,stage,tpflag\n"
                 "1,aten::conv2d,[4; 6; 8],[14],2673,2671,[64; 1728; 64],[64],0,forward,1\n"
                 "2,aten::relu,[14],[15],20,20,[64],[64],0,forward,1\n"
                 "3,ReluBackward0,[15],[16],30,30,[64],[64],0,backward,1\n"
                 "4,ConvolutionBackward0,[16; 6],[17],5000,4999,[64; 1728],[64],0,backward,1\n"
                 "5,aten::add_,[6],[6],10,10,[1728],[1728],0,optimizer,1\n")
    tensors = ("Index,TensorID,TensorShape,TensorNumElement,TensorEachByte,TensorType,TensorStorgeid,gpuid\n"
               "0,4,\"[1, 3, 8, 8]\",192,4,input,5,0\n1,6,\"[64, 3, 3, 3]\",1728,4,weight,7,0\n2,8,[64],64,4,bias,9,0\n")
    return {"joined.csv": (operators + tensors).encode()}


def backward_gaps() -> dict[str, bytes]:
    head = "first line is for explaination; sec line: # of batches; 3rd line:# of layers; first col: time wait for\n"
    return {"gaps.bk.log": (head + "2\n3\n483.5,4000\n0,64\n12.25,1000000\n480,4000\n0,64\n13,1000000\n").encode()}


def operation_csv() -> dict[str, bytes]:
    rows = ("0,0,0,7,forward-compute,0.0,0.1,0,0,0,0\n0,0,0,7,forward-send,0.1,0.05,0,-1,-1,-1\n0,0,0,7,gc,0.15,0,0,-1,-1,-1\n"
            "0,1,4,7,forward-recv,0.1,0.05,0,-1,-1,-1\n0,1,4,7,forward-compute,0.15,0.2,0,0,0,1\n"
            "0,0,0,9,backward-compute,0.5,0.25,3,0,2,0\n0,1,4,9,grads-reduce-scatter,0.25,1.25,0,0,-1,-1\n")
    return {"two-stages.csv": ("dp_rank,stage,rank,step,optype,start_ts,duration,seq_id,mc,mb_id,gmc\n" + rows).encode(),
            "few-columns.csv": b"step, optype, duration, start_ts, stage, dp_rank\r\n1,\"forward-compute\",0.5,0,1,0\r\n"
                               b"1,optimizer,0.25,0.5,0,\r\n2,backward-compute,2.5e-1,1730000000.000000001,1,0"}


# ---- SQLite ----

def database(statements: list[str]) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "report.sqlite"
        connection = sqlite3.connect(path)
        connection.execute("PRAGMA page_size = 512")
        for statement in statements:
            connection.execute(statement)
        connection.commit()
        connection.close()
        return path.read_bytes()


def nsys() -> dict[str, bytes]:
    process = (1 << 48) + (77 << 24)
    thread = process + 101
    prefix = "CUPTI_ACTIVITY_KIND_"
    names = ("cudaLaunchKernel_v7000", "cudaEventRecord_v3020", "gemm", "cudaStreamWaitEvent_v3020",
             "cudaEventSynchronize_v3020", "ncclDevKernel_AllReduce")

    def table(name: str, columns: str, *rows: tuple) -> list[str]:
        insert = [f"INSERT INTO {name} VALUES {','.join(str(row) for row in rows)}"] if rows else []
        return [f"CREATE TABLE {name}({columns})"] + insert

    strings = table("StringIds", "id INTEGER PRIMARY KEY,value TEXT", *enumerate(names, 1))
    calls = table(prefix + "RUNTIME", "start,end,globalTid,correlationId,nameId", (100, 110, thread, 1, 1),
                  (120, 125, thread, 2, 2), (130, 135, thread, 3, 4), (140, 145, thread, 4, 1), (150, 750, thread, 6, 5))
    kernels = table(prefix + "KERNEL", "start,end,deviceId,contextId,streamId,correlationId,globalPid,demangledName",
                    (150, 400, 0, 1, 7, 1, process, 3), (402, 700, 0, 1, 20, 4, process, 6))
    ranges = table("NVTX_EVENTS", "start,end,eventType,text,globalTid", (90, 780, 59, "step 1", thread),
                   (795, 999, 59, "step 2", thread), (91, 99, 59, "aten::mm, seq = 3, sizes = [[8, 3]]", thread))
    records = table(prefix + "CUDA_EVENT", "deviceId,contextId,streamId,correlationId,globalPid,eventId",
                    (0, 1, 7, 2, process, 5))
    waits = table(prefix + "SYNCHRONIZATION", "start,end,deviceId,contextId,streamId,correlationId,globalPid,eventId",
                  (130, 134, 0, 1, 20, 3, process, 5), (151, 749, 0, 1, 4294967295, 6, process, 5))
    copies = table(prefix + "MEMCPY", "start,end,deviceId,contextId,streamId,correlationId,globalPid,copyKind",
                   (800, 900, 0, 1, 7, 7, process, 1))
    return {"kernels.sqlite": database(strings + calls + kernels + ranges),
            "waits.sqlite": database(strings + calls + kernels + records + waits),
            "copies.sqlite": database(copies)}


def all_formats() -> dict[str, dict[str, bytes]]:
    makers = {"horovod": horovod, "bytescheduler": bytescheduler, "byteps": byteps, "mxnet": mxnet, "composer": composer,
              "operation-timeline": operation_timeline, "rocprof": rocprof, "rocprofv3": rocprofv3, "xla-json": xla_json,
              "pipeline-timestamps": pipeline_timestamps, "execution-trace": execution_trace,
              "chakra-json": chakra_json, "chakra": chakra, "xplane": xplane, "layer-csv": layer_csv,
              "pipedream": pipedream, "triosim": triosim, "backward-gaps": backward_gaps, "operation-csv": operation_csv,
              "nsys": nsys}
    return {name: make() for name, make in makers.items()}
