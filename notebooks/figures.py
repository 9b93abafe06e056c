"""What several notebooks draw: timelines, and curves that are named at their ends."""
import json

import matplotlib.pyplot as plt

COLOURS = {"forward": "#0072B2", "backward": "#D55E00", "update": "#999999", "other": "#CCCCCC", "transfer": "#009E73",
           "all-gather": "#56B4E9", "codec": "#CC79A7"}


def steady_iteration(events):
    """Start of the last iteration but one and of the last one that a timeline holds: of their first forward passes."""
    starts = {}
    for event in events:
        if event["cat"] == "forward":
            k = event["args"]["iteration"]
            starts[k] = min(starts.get(k, float("inf")), event["ts"])
    last = max(starts)
    return starts[last - 1], starts[last]


def draw_timeline(axes, trace_json, title, span_s=None):
    """One steady iteration of a timeline (stepcast.timeline): a lane for compute, one for each channel of the network.

    Returns how long the iteration takes, in seconds.
    """
    trace = json.loads(trace_json)
    events = trace["traceEvents"] if isinstance(trace, dict) else trace
    lane_names = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e.get("name") == "thread_name"}
    events = [e for e in events if e["ph"] == "X"]
    start, end = steady_iteration(events)
    span = span_s * 1e6 if span_s else end - start
    bars = {}
    for e in events:
        left, right = max(e["ts"], start), min(e["ts"] + e["dur"], start + span)
        kind = "all-gather" if e["name"].startswith("all_gather") else e["cat"]
        lane = bars.setdefault((lane_names[e["pid"], e["tid"]], kind), [])
        if lane and left - sum(lane[-1]) < span / 2000 and min(right - left, lane[-1][1]) < span / 90:
            lane[-1] = lane[-1][0], right - lane[-1][0]  # bars too short to be told apart become one
        elif right - left > span / 400:
            lane.append((left, right - left))
    lanes = sorted({lane for (lane, _), ranges in bars.items() if ranges}, key=lambda lane: (lane != "compute", lane))
    for (lane, kind), ranges in bars.items():
        if not ranges:
            continue
        in_ms = [((left - start) / 1e3, width / 1e3) for left, width in ranges]
        axes.broken_barh(in_ms, (lanes.index(lane) - 0.31, 0.62), color=COLOURS.get(kind, "black"), edgecolor="white",
                         linewidth=0.4)
    axes.axvline((end - start) / 1e3, color="black", linewidth=1, linestyle=(0, (3, 2)))
    axes.annotate(f"next step after {(end - start) / 1e3:.0f} ms", ((end - start) / 1e3, -0.45), xytext=(-4, 4),
                  textcoords="offset points", ha="right", fontsize=8.5, annotation_clip=False)
    axes.set_yticks(range(len(lanes)), lanes)
    axes.set_ylim(len(lanes) - 0.5, -0.6)
    axes.grid(False)
    axes.set_xlim(0, span / 1e3)
    axes.set_title(title)
    return (end - start) / 1e6


def timeline_key(figure, *names):
    """What the colours of a timeline mean."""
    colours = COLOURS | {"all-reduce": COLOURS["transfer"], "reduce-scatter": COLOURS["transfer"]}
    figure.legend(handles=[plt.Rectangle((0, 0), 1, 1, color=colours[n]) for n in names], labels=list(names),
                  loc="lower right", ncols=len(names), bbox_to_anchor=(0.99, 0.94), fontsize=8.5, handlelength=1.2)


def name_at_ends(axes, curves, least_gap=0.045, **text):
    """Names curves at their right ends, (name, x, y, colour) each, moved apart where they would overlap.

    To be called when scales and limits of the axes are as they stay.
    """
    to_axes = lambda x, y: axes.transAxes.inverted().transform(axes.transData.transform((x, y)))
    placed = sorted(((to_axes(x, y)[1], name, colour) for name, x, y, colour in curves))
    heights = [height for height, _, _ in placed]
    for i in range(1, len(heights)):
        heights[i] = max(heights[i], heights[i - 1] + least_gap)
    excess = max(0.0, heights[-1] - 1.0)
    for (_, name, colour), height in zip(placed, heights):
        axes.text(1.015, height - excess, name, transform=axes.transAxes, color=colour, va="center", fontsize=9, **text)
