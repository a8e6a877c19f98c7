/**
 * npm run docs: writes the files that are made from the source, so that they can be read without running it. Tests compare
 * each with what would be written now: sql.md in packages/bellwether/test/kernel, the other pages in docs.test.ts and dependencies.test.ts.
 */
import { chmod, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { migrate } from '../packages/bellwether/src/kernel/schema/migrate.js'
import { startEmbedded } from '../packages/bellwether/src/ports/database/embedded.js'
import { openDatabase } from '../packages/bellwether/src/ports/database/pool.js'
import { cliPage } from './pages/cli.js'
import { dependenciesPage } from './dependencies.js'
import { eventsPage, httpPage } from './pages/http.js'
import { securityPage, settingsPage, turnPage } from './pages/pages.js'
import { sqlPage } from './pages/sql.js'

const root = dirname(dirname(fileURLToPath(import.meta.url)))

async function schemaPage(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'bellwether-docs-'))
  // The server may run under an account of its own.
  await chmod(folder, 0o755)
  const log = { info: () => undefined, warn: () => undefined }
  const server = await startEmbedded({ dataDir: join(folder, 'postgres'), log, settings: { fsync: 'off' } })
  try {
    const db = await openDatabase({ url: server.url })
    await migrate(db)
    const text = await sqlPage(db)
    await db.close()
    return text
  } finally {
    await server.stop()
    await rm(folder, { recursive: true, force: true })
  }
}

const files = {
  'docs/reference/sql.md': await schemaPage(),
  'docs/reference/turn.md': turnPage(),
  'docs/reference/settings.md': settingsPage(),
  'docs/reference/cli.md': await cliPage(),
  'docs/reference/http.md': httpPage(),
  'docs/reference/events.md': eventsPage(),
  'docs/reference/dependencies.md': dependenciesPage(),
  'docs/security.md': securityPage(await readFile(join(root, 'docs/security.md'), 'utf8')),
}
for (const [path, text] of Object.entries(files)) {
  await writeFile(join(root, path), text)
  process.stdout.write(`${path}\n`)
}
