// A chart's SVG as a PNG: styles of the page are written into a copy first, as a picture has none.
const COPIED = ["fill", "stroke", "stroke-width", "stroke-dasharray", "opacity", "fill-opacity", "font-size", "font-weight", "font-family", "paint-order", "stroke-linejoin"];

/** @param {SVGElement} svg
 * @param {string} paper  the colour behind it
 * @returns {Promise<Blob>} */
export async function pictureOf(svg, paper) {
  /** @type {any} */
  const copy = svg.cloneNode(true);
  const originals = svg.querySelectorAll("*");
  copy.querySelectorAll("*").forEach((element, k) => {
    const style = getComputedStyle(originals[k]);
    for (const name of COPIED) element.style.setProperty(name, style.getPropertyValue(name));
  });
  const [width, height] = [Number(svg.getAttribute("width")), Number(svg.getAttribute("height"))];
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(new XMLSerializer().serializeToString(copy))}`;
  await image.decode();
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [2 * width, 2 * height];
  const pen = canvas.getContext("2d");
  pen.scale(2, 2);
  pen.fillStyle = paper;
  pen.fillRect(0, 0, width, height);
  pen.drawImage(image, 0, 0);
  return new Promise((done) => canvas.toBlob(done, "image/png"));
}
