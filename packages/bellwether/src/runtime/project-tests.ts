/** The command that runs the tests of a project, as its files say. Reads files; runs nothing. */
import { join } from 'node:path'
import { readRegularFile } from '../settings/regular-file.js'

const fromFiles: readonly (readonly [file: string, command: (text: string) => string | undefined])[] = [
  ['package.json', npmTest],
  ['Cargo.toml', () => 'cargo test'],
  ['go.mod', () => 'go test ./...'],
  ['pytest.ini', () => 'python3 -m pytest'],
  ['pyproject.toml', (text) => (text.includes('pytest') ? 'python3 -m pytest' : undefined)],
  ['Makefile', (text) => (/^test\s*:(?!=)/m.test(text) ? 'make test' : undefined)],
]

/** Undefined: no file says how the project is tested. */
export function testCommandOf(folder: string): string | undefined {
  for (const [file, commandIn] of fromFiles) {
    const text = textOf(join(folder, file))
    const command = text === undefined ? undefined : commandIn(text)
    if (command !== undefined) return command
  }
  return undefined
}

/** `npm init` writes a script that only fails. */
function npmTest(text: string): string | undefined {
  try {
    const { scripts } = JSON.parse(text) as { readonly scripts?: { readonly test?: unknown } }
    return typeof scripts?.test === 'string' && !scripts.test.includes('no test specified') ? 'npm test' : undefined
  } catch {
    return undefined // npm reports a package.json that is not JSON
  }
}

/** A file that cannot be read says nothing. */
function textOf(path: string): string | undefined {
  try {
    return readRegularFile(path)
  } catch {
    return undefined
  }
}
