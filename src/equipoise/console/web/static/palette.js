// @ts-check
// The colours of owners. They were searched for in OKLab, as different as can be for normal and for colour-blind eyes;
// the most different come first. One list serves light and dark. `style.css` has the same list, and a test compares.

export const SLOTS = [
  "86a9f7", "5759a6", "9ad1c5", "608ab5", "46b3a6", "886177", "b5be82", "3a732c", "b9bff8", "109d7b", "5f75c1",
  "54bbd2", "0b7a9a", "ac7d1b", "6e90dc", "cda448", "60a563", "117555", "51a0ad", "7a537c", "7aad84", "368794",
  "aabea6", "b7cca4",
];

/** "#rrggbb" or "rrggbb" as a little-endian pixel. @param {string} text */
export function pixel(text) {
  const value = parseInt(text.trim().replace("#", ""), 16);
  return (0xff000000 | ((value & 255) << 16) | (value & 0xff00) | (value >>> 16)) >>> 0;
}
