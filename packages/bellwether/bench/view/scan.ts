/**
 * Runs the sensor's scanner over the corpus in a separate process: `… ROOT ENTRIES`. Prints milliseconds and rows as JSON. The
 * time includes starting the threads.
 */
import { mustBe, round } from './timing.js'

interface Scanner {
  scan(request: {
    mode: 'snapshot'
    from: readonly string[]
    recursive: boolean
    onRows: (text: Buffer, count: number) => Promise<void>
  }): Promise<unknown>
}

// Imports the build by path, because the sensor does not export this module to other packages.
const address = new URL('../../../sensor/dist/scan/scanner.js', import.meta.url).href
const { openScanner } = (await import(address)) as { openScanner: (options: { root: string }) => Scanner }

const [root, entries] = [process.argv[2]!, Number(process.argv[3])]
const times: number[] = []
for (let i = 0; i < 4; i += 1) {
  let rows = 0
  const start = performance.now()
  await openScanner({ root }).scan({
    mode: 'snapshot',
    from: ['/'],
    recursive: true,
    onRows: async (_text, count) => {
      rows += count
    },
  })
  times.push(performance.now() - start)
  // The row of the root may be included.
  if (rows !== entries + 1) mustBe('rows of the scan', entries, rows)
}
process.stdout.write(JSON.stringify({ ms: round(Math.min(...times.slice(1))), entries }))
