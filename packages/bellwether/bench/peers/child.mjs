/**
 * What every peer script shares: it reads its order from the command line, passes the peer to the common scenarios and prints the figures
 * as one JSON line on stdout; all other output of the peer goes to stderr. It exits with a non-zero code after a failure, and when the
 * bench ends (stdin closes). peers.ts owns databases and timeouts.
 */
import { measure } from '../measure.ts'

/**
 * @typedef {{ databaseUrl: string, scenario: import('../measure.ts').Scenario, folder: string }} Order
 * @param {(order: Order & { ran: (job: number) => void }) => Promise<import('../measure.ts').Contender>} open
 */
export async function measurePeer(open) {
  const { n, ...order } = JSON.parse(process.argv[2])
  const print = process.stdout.write.bind(process.stdout)
  process.stdout.write = process.stderr.write.bind(process.stderr)
  process.stdin.resume().on('end', () => process.exit(1))
  const openPeer = (ledger) => open({ ...order, ran: ledger.ran })
  const figures = await measure(order.scenario, order.databaseUrl, openPeer, n)
  await new Promise((resolve) => print(`${JSON.stringify(figures)}\n`, resolve))
  // Peers leave timers and listeners behind; the work is done and asserted, so nothing is lost by leaving.
  process.exit(0)
}

/** Throws unless the store shows what it must. */
export function expectCount(what, found, expected) {
  if (Number(found) !== expected) throw new Error(`${what}: ${found} in the store, expected ${expected}`)
}
