/**
 * A view server that can check its own state: `checked-view.ts VIEW KEY PORT`. Besides the public API it listens on a second
 * port, where `/check` lists violated invariants, `/audit` asks the leader for an audit, and `/quiet` says whether all scans
 * have ended. It exits when its stdin closes.
 */
import { createServer } from 'node:http'
import { environment, systemClock, systemRandom } from '@bellwether/base'
import { makeApp } from '../../../src/http/app.js'
import { viewKeys } from '../../../src/http/auth.js'
import { uuidv7 } from '../../../src/ports/ids.js'
import { openLog } from '../../../src/runtime/logger.js'
import { openReceiver } from '../../../src/runtime/parts/listen.js'
import { openViews } from '../../../src/runtime/parts/views.js'
import { loadSettings } from '../../../src/settings/load.js'
import { sourceProblems } from '../invariants.js'

const [name = 'v', key = '', port = '0'] = process.argv.slice(2)
const settings = loadSettings({ folder: process.cwd(), env: environment() })
const log = openLog('view')
const over = new AbortController()
const ids = uuidv7(systemClock, systemRandom)
const fusion = openViews({ names: [name], settings: settings.view, ids, log })
const app = makeApp({ fusion, keys: viewKeys([[name, key]]), log, signal: over.signal })
const view = fusion.view(name)

const answers: Readonly<Record<string, () => unknown>> = {
  // Between two batches: a batch that is half applied may break an invariant for a moment.
  '/check': () =>
    Promise.all([...view.sources.values()].map(({ pipe }) => pipe.runExclusive(() => sourceProblems(pipe.state)))),
  '/audit': () => {
    for (const { id } of view.sources.values()) view.sessions.leader(id)?.command({ type: 'audit' })
    return []
  },
  '/quiet': () => view.scans.jobs.pending === 0,
}
const checks = createServer((request, response) => {
  void Promise.resolve(answers[request.url ?? '']?.()).then((answer) => response.end(JSON.stringify(answer ?? null)))
})
const receiver = openReceiver({ clock: systemClock, log, signal: over.signal })
const url = await receiver.listen(app, '127.0.0.1', Number(port))
checks.listen(0, '127.0.0.1', () => {
  const address = checks.address()
  const checkPort = typeof address === 'object' ? address?.port : undefined
  process.stdout.write(`${JSON.stringify({ url, checks: `http://127.0.0.1:${checkPort}` })}\n`)
})
process.stdin.on('end', () => process.exit(0)).resume()
await fusion.run(over.signal)
