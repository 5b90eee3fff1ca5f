// What a reader of a page may stumble over: {wide: elements beyond the right edge, faint: texts of low contrast}.
() => {
  const parse = text => {
    const found = text.match(/rgba?\(([^)]*)\)/);
    if (!found) return [0, 0, 0, 0];
    const [red, green, blue, alpha = 1] = found[1].split(/[\s,/]+/).map(Number);
    return [red, green, blue, alpha];
  };
  const over = ([red, green, blue, alpha], below) =>
    [red, green, blue].map((part, n) => alpha * part + (1 - alpha) * below[n]);
  const background = element => {
    const layers = [];
    for (let one = element; one; one = one.parentElement) layers.unshift(parse(getComputedStyle(one).backgroundColor));
    const page = matchMedia('(prefers-color-scheme: dark)').matches ? [18, 18, 18] : [255, 255, 255];
    return layers.reduce((below, layer) => over(layer, below), page);
  };
  const luminance = color => {
    const [red, green, blue] = color.map(part => part / 255).map(part =>
      part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const contrast = (one, other) => {
    const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  };
  const name = element => element.tagName.toLowerCase() + (element.id ? '#' + element.id : '') +
    [...element.classList].map(one => '.' + one).join('');
  const shown = element => element.checkVisibility({opacityProperty: true, visibilityProperty: true});
  const faint = new Map();
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = texts.nextNode(); node; node = texts.nextNode()) {
    const element = node.parentElement, style = getComputedStyle(element);
    if (!node.data.trim() || !shown(element) || element.closest('svg, script, style, noscript, [aria-hidden=true]')) continue;
    const box = element.getBoundingClientRect();
    if (box.width < 2 || box.height < 2) continue;  // for screen readers alone
    const below = background(element), ratio = contrast(over(parse(style.color), below), below);
    const size = parseFloat(style.fontSize), large = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
    if (ratio < (large ? 3 : 4.5) - 0.05) {
      const where = `${name(element)} ${style.color} on ${below.map(Math.round)}`;
      if (!faint.has(where)) faint.set(where, `${where}: ${ratio.toFixed(2)} "${node.data.trim().slice(0, 30)}"`);
    }
  }
  const root = document.documentElement, wide = [];
  if (root.scrollWidth > root.clientWidth)
    for (const element of document.body.querySelectorAll('*'))
      if (element.getBoundingClientRect().right > root.clientWidth + 1 && shown(element)) wide.push(name(element));
  return {wide: root.scrollWidth > root.clientWidth ? [`${root.scrollWidth} > ${root.clientWidth}`, ...wide.slice(0, 8)] : [],
          faint: [...faint.values()]};
}
