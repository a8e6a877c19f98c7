/** What is fixed about the programs: the flags that they need to run unattended, and what their model uses. */

// Without these flags the programs ask a person and never end.
export const unattended = {
  claude: ['-p', '--output-format', 'stream-json', '--verbose'],
  codex: ['exec', '--json', '-'],
  gemini: ['--output-format', 'stream-json'],
  aider: ['--yes-always', '--message-file', '/dev/stdin'],
  opencode: ['run', '--format', 'json'],
}

/** The usage of each call of the model: the context grows, and most of it is read from the cache. */
export const calls = [
  { input: 4, written: 16_384, read: 15_407, output: 118 },
  { input: 6, written: 1_210, read: 31_791, output: 240 },
  { input: 6, written: 890, read: 33_001, output: 310 },
  { input: 6, written: 1_630, read: 33_891, output: 420 },
  { input: 6, written: 640, read: 35_521, output: 190 },
  { input: 6, written: 812, read: 36_161, output: 350 },
]

/** US dollars, at 3 per million input tokens, 15 output, 3.75 cache write and 0.30 cache read. */
export const costOf = ({ input, written, read, output }) =>
  (input * 3 + output * 15 + written * 3.75 + read * 0.3) / 1_000_000
