/**
 * The arrows of this package, which the cruiser of the others cannot read for their JSX: only declared packages, of ours the protocol
 * alone, nothing outside src, no circles; and nothing that would make markup of text.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'

const src = dirname(fileURLToPath(import.meta.url))
const declared = Object.keys(
  (JSON.parse(readFileSync(join(src, '../package.json'), 'utf8')) as { dependencies: object }).dependencies,
)
const paths = readdirSync(src, { recursive: true, encoding: 'utf8' }).filter(
  (path) => /\.tsx?$/.test(path) && !path.endsWith('.test.ts'),
)
const texts = new Map(paths.map((path) => [path, readFileSync(join(src, path), 'utf8')]))

const importsOf = (text: string) =>
  [...text.matchAll(/(?:\bfrom|\bimport\(|^import)\s*'([^']+)'/gm)].map(([, name]) => name!)
const allowed = (name: string) => declared.some((one) => name === one || name.startsWith(`${one}/`))

/** The file that a relative import means. */
function target(from: string, name: string): string | undefined {
  const path = relative(src, join(src, dirname(from), name)).replace(/\.js$/, '')
  return [`${path}.ts`, `${path}.tsx`].find((one) => texts.has(one))
}

describe('imports of the dashboard', () => {
  it('are of declared packages, or of files in src', () => {
    const wrong = [...texts].flatMap(([path, text]) =>
      importsOf(text)
        .filter((name) => (name.startsWith('.') ? target(path, name) === undefined : !allowed(name)))
        .map((name) => `${path} → ${name}`),
    )
    expect(texts.size).toBeGreaterThan(50)
    expect(wrong).toEqual([])
  })

  it('take types from the protocol, never its code, which would bring its checker to the browser', () => {
    const wrong = [...texts]
      .filter(([, text]) => /^import (?!type\b)[^\n]*'@bellwether\/protocol'/m.test(text))
      .map(([path]) => path)
    expect(wrong).toEqual([])
  })

  it('make no circle', () => {
    const done = new Set<string>()
    const circles: string[] = []
    const walk = (path: string, above: readonly string[]): void => {
      if (above.includes(path)) circles.push([...above.slice(above.indexOf(path)), path].join(' → '))
      if (done.has(path) || above.includes(path)) return
      for (const name of importsOf(texts.get(path) ?? '').filter((one) => one.startsWith('.')))
        walk(target(path, name)!, [...above, path])
      done.add(path)
    }
    for (const path of texts.keys()) walk(path, [])
    expect(circles).toEqual([])
  })

  it('and code never makes markup of text', () => {
    const wrong = [...texts].filter(([, text]) =>
      /dangerouslySetInnerHTML|innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function/.test(text),
    )
    expect(wrong.map(([path]) => path)).toEqual([])
  })
})
