// The page of `stepcast report`, opened from disk and used as people do: looked at on a desk and on a telephone, in
// light and dark, by pointer and by keyboard, printed, and without its script.
import {execFileSync} from 'node:child_process';
import {existsSync, mkdtempSync, rmSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {dirname, join} from 'node:path';
import {fileURLToPath} from 'node:url';
import {chromium} from 'playwright-core';

const [, , program, shots] = process.argv;
const examples = join(dirname(fileURLToPath(import.meta.url)), '../../profiles/examples');
const folder = mkdtempSync(join(tmpdir(), 'stepcast-browser-'));

let passed = 0;
let failed = 0;
const check = (name, condition, found = '') => {
  if (condition) ++passed;
  else {
    ++failed;
    console.log(`FAILED: ${name}${found === '' ? '' : `: ${JSON.stringify(found)}`}`);
  }
};

const report = (name, trace, ...flags) => {
  const path = join(folder, `${name}.html`);
  execFileSync(program, ['report', trace, '-o', path, ...flags], {stdio: ['ignore', 'inherit', 'inherit']});
  return path;
};

// A table of layers whose names are an attack on the page.
const hostile = join(folder, 'hostile.csv');
writeFileSync(hostile, 'name,forward_ms,backward_ms,bytes\n' +
  '</script><img src=x onerror=window.attacked=1>,8,16,40000000\n' +
  '"""><svg onload=window.attacked=1>",8,16,40000000\n');

const pages = {
  transformer: report('transformer', join(examples, 'transformer-cpu-1-worker.pt.trace.json.gz'), '--workers', '16',
    '--per-node', '4', '--network', '1GbE', '--allow', 'lossy,stale,periodic'),
  resnet: report('resnet', join(examples, 'resnet18-cpu-1-worker.pt.trace.json.gz'), '--workers', '8', '--network',
    '10GbE', '--no-validation'),
  hostile: report('hostile', hostile, '--workers', '4', '--network', '1GbE', '--no-validation'),
};

const chromiumPath = process.env.CHROMIUM ?? ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'].find(existsSync);
const browser = await chromium.launch({executablePath: chromiumPath, args: ['--no-sandbox']});

// The page's policy refuses what waitForFunction evaluates again and again.
const until = async (page, condition, argument) => {
  for (let i = 0; i < 100 && !(await page.evaluate(condition, argument)); ++i) await page.waitForTimeout(50);
};

const opened = async (file, {width = 1280, scheme = 'light', script = true, touch = false} = {}) => {
  const context = await browser.newContext({
    viewport: {width, height: 900}, colorScheme: scheme, javaScriptEnabled: script, hasTouch: touch,
  });
  const page = await context.newPage();
  const trouble = [];
  page.on('console', (message) => trouble.push(`${message.type()}: ${message.text()}`));
  page.on('pageerror', (error) => trouble.push(error.message));
  page.on('request', (request) => request.url() !== `file://${file}` && trouble.push(`requests ${request.url()}`));
  await page.goto(`file://${file}`);
  if (script) await until(page, () => document.querySelector('.timelines.live') !== null);
  return {context, page, trouble};
};
const shot = async (page, name, options = {fullPage: true}) => {
  if (shots) await page.screenshot({path: join(shots, `${name}.png`), ...options});
};
const settled = (page) => page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));

// What no page may have, at any width, in any scheme.

const overflow = (page) => page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);

// Text whose contrast with what lies behind it is below WCAG 2.2 AA.
const faintTexts = (page) => page.evaluate(() => {
  const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
  const rgba = (colour) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = (top, bottom) => [0, 1, 2].map((i) => top[i] * top[3] + bottom[i] * (1 - top[3])).concat(1);
  const luminance = (c) => {
    const [r, g, b] = c.slice(0, 3).map((v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (a, b) => {
    const [high, low] = [luminance(a), luminance(b)].sort((x, y) => y - x);
    return (high + 0.05) / (low + 0.05);
  };
  const ground = (element) => {
    const layers = [];
    for (let e = element; e; e = e.parentElement) layers.push(rgba(getComputedStyle(e).backgroundColor));
    return layers.reverse().reduce((below, layer) => over(layer, below), [255, 255, 255, 1]);
  };
  const faint = [];
  const judge = (element, colour, behind) => {
    const style = getComputedStyle(element);
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
    const found = contrast(over(colour, behind), behind);
    if (found < (large ? 3 : 4.5)) faint.push(`${found.toFixed(2)} ${element.className.baseVal ?? element.className} ${element.textContent.slice(0, 30)}`);
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const element = node.parentElement;
    if (!node.data.trim() || element.closest('script, style, title, desc') || !element.checkVisibility()) continue;
    const svgText = element.closest('svg text');
    if (!svgText) judge(element, rgba(getComputedStyle(element).color), ground(element));
    else if (!element.closest('.names')) judge(element, rgba(getComputedStyle(element).fill), ground(svgText.ownerSVGElement));
  }
  // Names on bars: against the bar below them.
  for (const text of document.querySelectorAll('.names text')) {
    const plot = text.closest('.plot');
    const kind = text.getAttribute('class').split(' ')[0].replace('on-', '');
    const beside = text.classList.contains('on-beside');
    const bar = plot.querySelector(`.tasks .${kind}${beside ? '.beside' : ':not(.beside)'}`);
    const style = getComputedStyle(bar);
    const fill = rgba(style.fill);
    fill[3] *= Number(style.fillOpacity);
    const behind = over(fill, ground(plot));
    judge(text, rgba(getComputedStyle(text).fill), behind);
  }
  return [...new Set(faint)];
});

for (const [name, file] of Object.entries(pages))
  for (const width of [1280, 360])
    for (const scheme of ['light', 'dark']) {
      const what = `${name} at ${width}, ${scheme}`;
      const {context, page, trouble} = await opened(file, {width, scheme});
      check(`${what}: no sideways scrolling`, (await overflow(page)) <= 0, await overflow(page));
      const faint = await faintTexts(page);
      check(`${what}: contrast`, faint.length === 0, faint);
      check(`${what}: scheme`, (await page.evaluate(() => {
        const [r] = getComputedStyle(document.body).backgroundColor.match(/\d+/g);
        return Number(r) > 128 ? 'light' : 'dark';
      })) === scheme);
      check(`${what}: one heading of the page`, (await page.locator('h1').count()) === 1);
      check(`${what}: drawn within their frames`, await page.evaluate(() =>
        [...document.querySelectorAll('.plot, .bar')].every((e) => e.getBoundingClientRect().right <= innerWidth || e.closest('.scroller'))));
      await shot(page, `${name}-${width}-${scheme}`);
      check(`${what}: no error, no message, no request`, trouble.length === 0, trouble);
      await context.close();
    }

// The attack is text.
{
  const {context, page} = await opened(pages.hostile);
  check('hostile names do nothing', await page.evaluate(() => window.attacked === undefined && document.querySelector('img') === null));
  check('hostile names are shown', (await page.locator('#trace').innerText()).includes('</script><img src=x onerror=window.attacked=1>'));
  check('the record is JSON', await page.evaluate(() => 
    JSON.parse(document.querySelector('#record').textContent).schema === 'stepcast.ranking/1'));
  check('a script that was not there is refused', await page.evaluate(() => {
    const script = document.createElement('script');
    script.textContent = 'window.attacked = 2';
    document.body.append(script);
    return window.attacked === undefined;
  }));
  await context.close();
}

// Zoom.
const shown = (page) => page.evaluate(() => document.querySelector('.tasks').getAttribute('viewBox').split(' ').map(Number));
const same = (page) => page.evaluate(() => new Set([...document.querySelectorAll('.tasks')].map((e) => e.getAttribute('viewBox').split(' ').filter((_, i) => i % 2 === 0).join())).size === 1);
{
  const {context, page, trouble} = await opened(pages.transformer);
  const timelines = page.locator('.timelines');
  await timelines.scrollIntoViewIfNeeded();
  const all = (await shown(page))[2];
  const width = async () => { await settled(page); return (await shown(page))[2]; };
  const start = async () => { await settled(page); return (await shown(page))[0]; };

  await page.getByRole('button', {name: 'Zoom in'}).click();
  check('button +', (await width()) < all);
  check('both drawings show the same stretch', await same(page));
  const before = await start();
  await page.getByRole('button', {name: 'Later'}).click();
  check('button later', (await start()) > before);
  await page.getByRole('button', {name: 'Earlier'}).click();
  check('button earlier', (await start()) === before);
  await page.getByRole('button', {name: 'Zoom out'}).click();
  check('button -', (await width()) === all);
  await page.getByRole('button', {name: 'Zoom in'}).click();
  await page.getByRole('button', {name: 'Show the whole step'}).click();
  check('button whole step', (await width()) === all);

  await timelines.focus();
  await page.keyboard.press('+');
  const closer = await width();
  check('key +', closer < all);
  check('names follow', (await page.locator('.names svg').count()) > 0);
  const left = await start();
  await page.keyboard.press('ArrowRight');
  check('key right', (await start()) > left);
  await page.keyboard.press('ArrowLeft');
  check('key left', (await start()) === left);
  await page.keyboard.press('-');
  check('key -', (await width()) > closer);
  await page.keyboard.press('+');
  await page.keyboard.press('0');
  check('key 0', (await width()) === all);
  check('the range is told', (await page.locator('.range').innerText()).startsWith('0 '));

  const box = await timelines.boundingBox();
  await page.mouse.move(box.x + box.width / 2, box.y + 60);
  await page.mouse.wheel(0, -300);
  const wheeled = await width();
  check('wheel with the focus zooms', wheeled < all);
  const dragFrom = await start();
  await page.mouse.down();
  await page.mouse.move(box.x + box.width / 2 - 80, box.y + 60, {steps: 4});
  await page.mouse.up();
  check('drag moves', (await start()) > dragFrom);
  await shot(page, 'transformer-zoomed', {});
  await page.keyboard.press('0');
  await page.evaluate(() => document.activeElement.blur());
  const scrolled = await page.evaluate(() => scrollY);
  await page.mouse.wheel(0, 200);
  await until(page, (y) => scrollY !== y, scrolled);
  check('wheel without the focus scrolls the page', (await page.evaluate(() => scrollY)) !== scrolled && (await width()) === all);
  await page.keyboard.down('Control');
  await timelines.hover({position: {x: 200, y: 60}});
  await page.mouse.wheel(0, -200);
  await page.keyboard.up('Control');
  check('wheel with Ctrl zooms', (await width()) < all);
  check('zoom: no error', trouble.length === 0, trouble);
  await context.close();
}

// Two fingers.
{
  const {context, page} = await opened(pages.transformer, {width: 360, touch: true});
  const timelines = page.locator('.timelines');
  await timelines.scrollIntoViewIfNeeded();
  const all = (await shown(page))[2];
  const box = await timelines.boundingBox();
  const session = await context.newCDPSession(page);
  const fingers = (apart) => [-1, 1].map((side, id) => ({x: box.x + box.width / 2 + side * apart, y: box.y + 60, id}));
  await session.send('Input.dispatchTouchEvent', {type: 'touchStart', touchPoints: fingers(30)});
  for (const apart of [50, 70, 90]) await session.send('Input.dispatchTouchEvent', {type: 'touchMove', touchPoints: fingers(apart)});
  await session.send('Input.dispatchTouchEvent', {type: 'touchEnd', touchPoints: []});
  await settled(page);
  check('pinching zooms', (await shown(page))[2] < 0.6 * all, await shown(page));
  await context.close();
}

// What a task is.
{
  const {context, page} = await opened(pages.transformer);
  const task = page.locator('.task');
  const transfer = page.locator('.tasks .transfer:not(.beside)').last();
  await transfer.scrollIntoViewIfNeeded();
  await transfer.hover({force: true});
  check('hovering tells the task', /network[\s\S]*: [\d.]+ \S+ to [\d.]+ \S+, [\d.]+ m?s/.test(await task.innerText()), await task.innerText());
  await page.mouse.move(5, 5);
  check('and forgets it', (await task.innerText()) === '');
  await page.locator('.controls button').last().focus();
  await page.keyboard.press('Tab');
  check('the timelines take the focus', await page.evaluate(() => document.activeElement.classList.contains('timelines')));
  const first = await task.innerText();
  check('the focus tells a task', first !== '');
  await page.keyboard.press('Shift+ArrowRight');
  const second = await task.innerText();
  check('the next task', second !== first && second !== '');
  await page.keyboard.press('Shift+ArrowLeft');
  check('the task before', (await task.innerText()) === first);
  await page.keyboard.press('ArrowDown');
  check('the lane below', (await task.innerText()) !== first);
  check('the chosen task is marked', (await page.locator('.tasks .chosen').count()) === 1);
  await shot(page, 'transformer-chosen', {});
  await context.close();
}

// By keyboard alone: everything that can be used is reached, and what has the focus shows it.
for (const [name, file] of Object.entries({transformer: pages.transformer, resnet: pages.resnet})) {
  const {context, page} = await opened(file);
  const usable = await page.evaluate(() => [...document.querySelectorAll('a[href], button, summary, [tabindex="0"]')]
    .filter((e) => e.checkVisibility()).length);
  await page.evaluate(() => { window.seen = new Set(); window.unmarked = []; });
  for (let i = 0; i < usable + 2; ++i) {
    await page.keyboard.press('Tab');
    await page.evaluate(() => {
      const e = document.activeElement;
      if (e === document.body) return;
      window.seen.add(e);
      const style = getComputedStyle(e);
      if (style.outlineStyle === 'none' || parseFloat(style.outlineWidth) < 2) window.unmarked.push(e.outerHTML.slice(0, 80));
    });
  }
  check(`${name}: tab reaches everything`, (await page.evaluate(() => window.seen.size)) === usable,
    [usable, await page.evaluate(() => window.seen.size)]);
  check(`${name}: the focus is visible`, (await page.evaluate(() => window.unmarked.length)) === 0, await page.evaluate(() => window.unmarked));
  await context.close();
}

// Copying, with and without a clipboard.
for (const clipboard of [true, false]) {
  const {context, page} = await opened(pages.transformer);
  if (clipboard) await context.grantPermissions(['clipboard-read', 'clipboard-write']);
  else await page.evaluate(() => Object.defineProperty(navigator, 'clipboard', {value: undefined}));
  const text = await page.locator('#settings-1').innerText();
  const button = page.locator('[data-copy="settings-1"]');
  await button.click();
  await until(page, () => /Copied|Selected/.test(document.querySelector('[data-copy="settings-1"]').textContent));
  if (clipboard) check('copied', (await page.evaluate(() => navigator.clipboard.readText())) === text);
  else check('without a clipboard the text is selected', (await page.evaluate(() => String(getSelection()))).trim() === text.trim());
  await context.close();
}

// Printed.
{
  const {context, page} = await opened(pages.transformer, {scheme: 'dark'});
  await page.emulateMedia({media: 'print', colorScheme: 'dark'});
  check('print is light', (await page.evaluate(() => getComputedStyle(document.documentElement).getPropertyValue('--paper').trim())) === '#ffffff');
  check('print has no controls', !(await page.locator('.controls').isVisible()) && !(await page.locator('.copy').first().isVisible()) &&
    !(await page.locator('nav').isVisible()));
  const faint = await faintTexts(page);
  check('print: contrast', faint.length === 0, faint);
  if (shots) await page.pdf({path: join(shots, 'transformer.pdf'), format: 'A4', printBackground: true});
  await context.close();
}

// Without its script.
for (const width of [1280, 360]) {
  const {context, page, trouble} = await opened(pages.transformer, {width, script: false});
  check('no script: the answer', (await page.locator('.answer').innerText()).startsWith('Run '));
  check('no script: the ranking', (await page.locator('#ranking tbody tr').count()) > 5);
  check('no script: the traced step and two timelines', (await page.locator('.plot').count()) === 3);
  const bars = await page.locator('.tasks').first().locator('rect').all();
  const boxes = await Promise.all(bars.slice(0, 5).map((bar) => bar.boundingBox()));
  check('no script: bars have a size', boxes.every((b) => b && b.width > 0 && b.height > 5));
  check('no script: lanes are named', await page.locator('.lane-name', {hasText: 'network'}).first().isVisible());
  check('no script: no dead controls', !(await page.locator('.controls').isVisible()) && !(await page.locator('.copy').first().isVisible()));
  check('no script: no trouble', trouble.length === 0, trouble);
  await shot(page, `transformer-noscript-${width}`);
  await context.close();
}

await browser.close();
rmSync(folder, {recursive: true});
console.log(`browser: ${passed} passed, ${failed} failed`);
process.exit(failed > 0 ? 1 : 0);
