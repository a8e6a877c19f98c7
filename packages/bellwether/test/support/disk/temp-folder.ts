import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'

/** A new folder, removed when the test ends. Call it in a test or in `beforeEach`. */
export function tempFolder(name: string): string {
  const folder = mkdtempSync(join(tmpdir(), `bellwether-${name}-`))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}
