import { readFileSync } from 'node:fs'
import { satisfies } from 'semver'
import { expect, it } from 'vitest'
import { billOfMaterials, dependenciesPage, readDependencies, readScriptDecisions } from './dependencies.js'

const all = readDependencies()
const read = (path: string) => readFileSync(new URL(`../${path}`, import.meta.url), 'utf8')
const named = (some: typeof all) => some.map(({ name, version }) => `${name}@${version}`)

it('docs/reference/dependencies.md shows the packages of the lock file (npm run docs writes it)', () => {
  expect(read('docs/reference/dependencies.md')).toBe(dependenciesPage())
})

it('every installed package has a licence that allows its use in a product under Apache-2.0', () => {
  const allowed = [
    '0BSD',
    'Apache-2.0',
    'BlueOak-1.0.0',
    'BSD-2-Clause',
    'BSD-3-Clause',
    'ISC',
    'MIT',
    'MIT-0',
    'Unlicense',
  ]
  const isAllowed = (licence: string) =>
    licence.includes(' OR ')
      ? licence.replaceAll(/[()]/g, '').split(' OR ').some(isAllowed)
      : licence.split(' AND ').every((one) => allowed.includes(one))
  expect(named(all.filter(({ dev, licence }) => !dev && !isAllowed(licence)))).toEqual([])
})

it('package.json decides about every package with an install script, and about no other', () => {
  const scripts = new Set(all.filter(({ hasInstallScript }) => hasInstallScript).map(({ name }) => name))
  expect(Object.keys(readScriptDecisions()).toSorted()).toEqual([...scripts].toSorted())
})

it('the lock file has a checksum for every package', () => {
  expect(named(all.filter(({ integrity }) => integrity?.startsWith('sha512-') !== true))).toEqual([])
})

it('every package supports the supported versions of Node', () => {
  const unsupported = (node: string) => all.filter((one) => one.nodeRange && !satisfies(node, one.nodeRange))
  for (const node of supportedNodes()) expect([node, named(unsupported(node))]).toEqual([node, []])
})

/** From docs/platforms.md: "20, 22 and 24". The newest release of each line. */
function supportedNodes(): readonly string[] {
  const cell = /^\| Node \| ([^|]+) \|/m.exec(read('docs/platforms.md'))?.[1]
  const majors = cell?.match(/\d+/g) ?? []
  expect(majors).toEqual(['20', '22', '24'])
  return majors.map((major) => `${major}.99.0`)
}

it('the bill of materials has every package of the published product with its licence and checksum', () => {
  const { components } = billOfMaterials() as {
    components: { name: string; version: string; licenses: object[]; hashes: { content: string }[] }[]
  }
  const installed = all.filter(({ dev }) => !dev)
  expect(new Set(components.map(({ name, version }) => `${name}@${version}`))).toEqual(new Set(named(installed)))
  for (const { hashes } of components) expect(hashes[0]!.content).toMatch(/^[0-9a-f]{128}$/)
  expect(components.find(({ name }) => name === 'zod')).toMatchObject({ licenses: [{ license: { id: 'MIT' } }] })
})
