// Timelines that zoom: both drawings show the same stretch of time. The drawings are complete without this script,
// which rewrites the coordinates that the bars lie in (the viewBox of the inner picture), the axis and the names.
(() => {
  const root = document.querySelector('.timelines');
  if (!root) return;
  const section = root.closest('section');
  const units = Number(root.dataset.units);
  const nanoseconds = Number(root.dataset.span) / units;  // of one unit
  const narrowest = units / 5000;
  const svgName = 'http://www.w3.org/2000/svg';
  const readout = section.querySelector('.task');
  const range = section.querySelector('.range');

  const svg = (name, attributes, text) => {
    const element = document.createElementNS(svgName, name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    if (text !== undefined) element.textContent = text;
    return element;
  };

  // A task is what its rectangle says; the title goes, or the browser would show it beside ours.
  const taskOf = (rect, lane) => {
    const title = rect.querySelector('title');
    const [name, times] = title.textContent.split('\n');
    title.remove();
    const from = Number(rect.getAttribute('x'));
    return {
      rect, lane, name, times, label: name.replace(/^(forward|backward) /, ''), from, to: from + Number(rect.getAttribute('width')),
      top: Number(rect.getAttribute('y')), height: Number(rect.getAttribute('height')),
      kind: rect.classList[0], beside: rect.classList.contains('beside'),
    };
  };
  const lanes = [];
  const taskAt = new Map();
  const plots = [...root.querySelectorAll('.plot')].map((element) => {
    const plot = {
      element, inner: element.querySelector('.tasks'), axis: element.querySelector('.axis'),
      names: element.querySelector('.names'), height: Number(element.getAttribute('height')), tasks: [],
    };
    for (const group of element.querySelectorAll('.lane')) {
      const lane = {name: group.dataset.name, tasks: []};
      for (const rect of group.querySelectorAll('rect')) {
        const task = taskOf(rect, lane);
        lane.tasks.push(task);
        plot.tasks.push(task);
        taskAt.set(rect, task);
      }
      lane.tasks.sort((a, b) => a.from - b.from);
      if (lane.tasks.length > 0) lanes.push(lane);
    }
    return plot;
  });

  // What is shown, in units.
  let from = 0, to = units;
  let chosen = null;
  let waiting = false;

  const timeText = (ns, distance) => {
    const [unit, size] = distance >= 1e9 ? ['s', 1e9] : distance >= 1e6 ? ['ms', 1e6] : distance >= 1e3 ? ['us', 1e3] : ['ns', 1];
    const digits = Math.max(0, Math.min(6, -Math.floor(Math.log10(distance / size) + 1e-9)));
    return (ns / size).toFixed(digits) + ' ' + unit;
  };
  const tickDistance = (span) => {
    const wanted = span / Math.max(2, Math.min(7, root.clientWidth / 90));
    const power = 10 ** Math.floor(Math.log10(wanted));
    return power * [1, 2, 5, 10].find((digit) => digit * power >= wanted);
  };
  const percent = (unit) => (100 * (unit - from) / (to - from)).toFixed(3) + '%';

  const drawAxis = (plot) => {
    const distance = tickDistance((to - from) * nanoseconds);
    const items = [];
    for (let k = Math.ceil(from * nanoseconds / distance - 1e-9); k * distance <= to * nanoseconds; ++k) {
      const x = percent(k * distance / nanoseconds);
      items.push(svg('line', {x1: x, x2: x, y1: 16, y2: plot.height}));
      if (parseFloat(x) < 100 - 6500 / root.clientWidth)
        items.push(svg('text', {x, y: 12, dx: 3}, k === 0 ? '0' : timeText(k * distance, distance)));
    }
    plot.axis.replaceChildren(...items);
  };
  const drawNames = (plot) => {
    const pixels = root.clientWidth / (to - from);
    const most = 300;
    const items = [];
    for (const task of plot.tasks) {
      const left = Math.max(task.from, from), right = Math.min(task.to, to);
      if ((right - left) * pixels < 30 || items.length >= most) continue;
      if (task.kind === 'issue') continue;  // too pale to carry its name, which its title has
      const frame = svg('svg', {
        x: percent(left), y: task.top, width: (100 * (right - left) / (to - from)).toFixed(3) + '%', height: task.height,
      });
      const css = 'on-' + task.kind + (task.beside ? ' on-beside' : '');
      frame.append(svg('text', {x: 4, y: Math.floor((task.height + 9) / 2), class: css}, task.label));
      items.push(frame);
    }
    plot.names.replaceChildren(...items);
  };
  const draw = () => {
    waiting = false;
    for (const plot of plots) {
      plot.inner.setAttribute('viewBox', `${from} 0 ${to - from} ${plot.height}`);
      drawAxis(plot);
      drawNames(plot);
    }
    const distance = tickDistance((to - from) * nanoseconds) / 10;
    range.value = timeText(from * nanoseconds, distance) + ' to ' + timeText(to * nanoseconds, distance);
  };
  const show = (newFrom, newTo) => {
    const width = Math.min(units, Math.max(narrowest, newTo - newFrom));
    from = Math.max(0, Math.min(units - width, newFrom));
    to = from + width;
    if (!waiting) requestAnimationFrame(draw);
    waiting = true;
  };
  const zoom = (factor, share = 0.5) => {
    const centre = from + share * (to - from);
    const width = Math.min(units, Math.max(narrowest, (to - from) / factor));
    show(centre - share * width, centre - share * width + width);
  };
  const move = (share) => show(from + share * (to - from), to + share * (to - from));

  const tell = (task) => {
    readout.replaceChildren();
    if (!task) return;
    const name = document.createElement('strong');
    name.textContent = task.name;
    readout.append(name, document.createElement('br'), `${task.lane.name}: ${task.times}`);
  };
  const choose = (task) => {
    if (chosen) chosen.rect.classList.remove('chosen');
    chosen = task;
    tell(task);
    if (!task) return;
    task.rect.classList.add('chosen');
    if (task.to <= from || task.from >= to) {
      const centre = (task.from + task.to) / 2;
      show(centre - (to - from) / 2, centre + (to - from) / 2);
    }
  };
  const firstVisible = (lane) => lane.tasks.find((task) => task.to > from) ?? lane.tasks.at(-1);
  const chooseNext = (direction) => {
    if (!chosen) return choose(firstVisible(lanes[0]));
    const tasks = chosen.lane.tasks;
    const next = tasks[tasks.indexOf(chosen) + direction];
    if (next) choose(next);
  };
  const chooseLane = (direction) => {
    if (!chosen) return choose(firstVisible(lanes[0]));
    const lane = lanes[lanes.indexOf(chosen.lane) + direction];
    if (!lane) return;
    const time = chosen.from;
    choose(lane.tasks.findLast((task) => task.from <= time && task.to > from) ?? firstVisible(lane));
  };

  const actions = {
    in: () => zoom(1.6), out: () => zoom(1 / 1.6), left: () => move(-0.25), right: () => move(0.25),
    all: () => show(0, units),
  };
  const keys = {
    '+': actions.in, '=': actions.in, '-': actions.out, _: actions.out, 0: actions.all,
    ArrowLeft: (e) => (e.shiftKey ? chooseNext(-1) : actions.left()),
    ArrowRight: (e) => (e.shiftKey ? chooseNext(1) : actions.right()),
    ArrowUp: () => chooseLane(-1), ArrowDown: () => chooseLane(1),
  };
  root.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !Object.hasOwn(keys, event.key)) return;
    event.preventDefault();
    keys[event.key](event);
  });
  for (const button of section.querySelectorAll('button[data-zoom]'))
    button.addEventListener('click', actions[button.dataset.zoom]);

  const shareAt = (event) => {
    const box = root.getBoundingClientRect();
    return (event.clientX - box.left) / box.width;
  };
  root.addEventListener('wheel', (event) => {
    // Without this a page could not be scrolled past its timelines.
    if (!event.ctrlKey && !event.metaKey && document.activeElement !== root) return;
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      event.preventDefault();
      return move(event.deltaX / root.clientWidth);
    }
    if (event.deltaY > 0 && to - from >= units && !event.ctrlKey) return;
    event.preventDefault();
    zoom(Math.exp(-Math.max(-100, Math.min(100, event.deltaY)) / 250), shareAt(event));
  }, {passive: false});

  // One pointer drags, two pinch.
  const pointers = new Map();
  let dragged = 0;
  root.addEventListener('pointerdown', (event) => {
    if (event.button !== 0) return;
    pointers.set(event.pointerId, event);
    dragged = 0;
  });
  root.addEventListener('pointermove', (event) => {
    const before = pointers.get(event.pointerId);
    if (!before) return tell(taskAt.get(event.target) ?? chosen);
    const others = [...pointers.values()].filter((p) => p.pointerId !== event.pointerId);
    if (others.length === 0) {
      dragged += Math.abs(event.clientX - before.clientX);
      if (dragged > 4 && !root.hasPointerCapture(event.pointerId)) root.setPointerCapture(event.pointerId);
      move((before.clientX - event.clientX) / root.clientWidth);
    } else {
      const apart = (a) => Math.max(8, Math.abs(a.clientX - others[0].clientX));
      zoom(apart(event) / apart(before), (shareAt(event) + shareAt(others[0])) / 2);
      dragged += 5;
    }
    pointers.set(event.pointerId, event);
  });
  for (const end of ['pointerup', 'pointercancel', 'lostpointercapture'])
    root.addEventListener(end, (event) => pointers.delete(event.pointerId));
  root.addEventListener('pointerleave', () => tell(chosen));
  root.addEventListener('click', (event) => {
    if (dragged <= 4) choose(taskAt.get(event.target) ?? null);
  });
  root.addEventListener('focus', () => {
    if (!chosen && root.matches(':focus-visible')) chooseNext(0);
  });

  root.classList.add('live');
  root.tabIndex = 0;
  root.setAttribute('role', 'group');
  root.setAttribute('aria-label', 'Timelines: plus, minus and zero zoom, arrows move, shift with arrows goes from task to task');
  for (const element of section.querySelectorAll('.controls, .how, .task')) element.hidden = false;
  new ResizeObserver(() => show(from, to)).observe(root);
})();
