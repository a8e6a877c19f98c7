/**
 * The import rules of this package, because the cruiser of the other packages cannot parse JSX: declared packages only, of ours only
 * types and the parts of the protocol without schemas, nothing outside src, no cycles; and no code that turns text into markup.
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
  it('name declared packages or files in src', () => {
    const wrong = [...texts].flatMap(([path, text]) =>
      importsOf(text)
        .filter((name) => (name.startsWith('.') ? target(path, name) === undefined : !allowed(name)))
        .map((name) => `${path} → ${name}`),
    )
    expect(texts.size).toBeGreaterThan(50)
    expect(wrong).toEqual([])
  })

  it('take only types from the protocol, because its code would bring zod to the browser', () => {
    const wrong = [...texts]
      .filter(([, text]) => /^import (?!type\b)[^']*'@bellwether\/protocol(?:\/http)?'/m.test(text))
      .map(([path]) => path)
    expect(wrong).toEqual([])
  })

  it('point from pages to the frame to parts, and from all of them to the model', () => {
    const layers = ['model', 'parts', 'frame', 'pages']
    const layerOf = (path: string) => layers.indexOf(path.split('/')[0]!)
    const wrong = [...texts].flatMap(([path, text]) =>
      importsOf(text)
        .flatMap((name) => (name.startsWith('.') ? [target(path, name)!] : []))
        .filter((used) => layerOf(path) >= 0 && layerOf(used) > layerOf(path))
        .map((used) => `${path} → ${used}`),
    )
    expect(wrong).toEqual([])
  })

  it('form no cycle', () => {
    const done = new Set<string>()
    const cycles: string[] = []
    const walk = (path: string, above: readonly string[]): void => {
      if (above.includes(path)) cycles.push([...above.slice(above.indexOf(path)), path].join(' → '))
      if (done.has(path) || above.includes(path)) return
      for (const name of importsOf(texts.get(path) ?? '').filter((one) => one.startsWith('.')))
        walk(target(path, name)!, [...above, path])
      done.add(path)
    }
    for (const path of texts.keys()) walk(path, [])
    expect(cycles).toEqual([])
  })

  it('no code of the dashboard turns text into markup', () => {
    const wrong = [...texts].filter(([, text]) =>
      /dangerouslySetInnerHTML|innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function/.test(text),
    )
    expect(wrong.map(([path]) => path)).toEqual([])
  })
})
