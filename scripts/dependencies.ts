/**
 * Reads from package-lock.json what installing Bellwether brings onto a machine: packages, licences, programs that run at install time, and
 * the Node versions that each package supports. docs/reference/dependencies.md and the bill of materials (sbom.ts) show it;
 * dependencies.test.ts checks it.
 */
import { readFileSync } from 'node:fs'
import { generated, page } from './pages/pages.js'

export interface Dependency {
  readonly name: string
  readonly version: string
  readonly licence: string
  /** Where npm puts it. One package can be installed in several versions. */
  readonly path: string
  /** Not installed with the published package. */
  readonly dev: boolean
  /** Installed only on some platforms. */
  readonly optional: boolean
  readonly hasInstallScript: boolean
  readonly integrity: string | undefined
  /** The range of Node versions, as npm compares it. */
  readonly nodeRange: string | undefined
}

interface LockEntry {
  readonly version?: string
  readonly license?: string
  readonly link?: boolean
  readonly dev?: boolean
  readonly optional?: boolean
  readonly devOptional?: boolean
  readonly hasInstallScript?: boolean
  readonly integrity?: string
  readonly engines?: { readonly node?: string }
}

const readJson = (path: string): unknown => JSON.parse(readFileSync(new URL(`../${path}`, import.meta.url), 'utf8'))

export function readDependencies(): readonly Dependency[] {
  const { packages } = readJson('package-lock.json') as { packages: Record<string, LockEntry> }
  return Object.entries(packages)
    .filter(([path, { link }]) => path.includes('node_modules/') && link !== true)
    .map(([path, entry]) => ({
      path,
      name: path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length),
      version: entry.version ?? '',
      licence: entry.license ?? '',
      dev: entry.dev === true || entry.devOptional === true,
      optional: entry.optional === true || entry.devOptional === true,
      hasInstallScript: entry.hasInstallScript === true,
      integrity: entry.integrity,
      nodeRange: entry.engines?.node,
    }))
}

/** The decisions about install scripts in package.json: true runs them, false does not. */
export const readScriptDecisions = (): Readonly<Record<string, boolean>> =>
  (readJson('package.json') as { allowScripts: Record<string, boolean> }).allowScripts

export function dependenciesPage(): string {
  const all = readDependencies()
  const installed = all.filter(({ dev }) => !dev)
  const decisions = readScriptDecisions()
  const scripts = all.filter(({ hasInstallScript }) => hasInstallScript)
  const licences = [...new Set(installed.map(({ licence }) => licence))].toSorted()
  const sorted = installed.toSorted((one, other) => (one.path < other.path ? -1 : 1))
  return page(
    '# Dependencies',
    '',
    generated,
    '',
    `Installing Bellwether installs ${installed.length} packages of other projects, some of them only on certain platforms. Building and testing it`,
    `uses ${all.length - installed.length} more. \`npm run -s sbom\` prints a CycloneDX bill of materials; the published package contains it as`,
    '`sbom.cdx.json`. The reasons for the direct dependencies are in [decisions](../decisions/0007-dependencies.md).',
    '',
    '## Programs that run at install time',
    '',
    '| package | version | decision in `allowScripts` |',
    '|---|---|---|',
    ...scripts.map(
      ({ name, version }) => `| ${name} | ${version} | ${decisions[name] === true ? 'runs' : 'does not run'} |`,
    ),
    '',
    'npm 11 and newer apply these decisions; older versions run all install scripts.',
    '',
    '## Licences',
    '',
    '| licence | packages |',
    '|---|---|',
    ...licences.map((licence) => `| ${licence} | ${installed.filter((one) => one.licence === licence).length} |`),
    '',
    '## Packages',
    '',
    '| package | version | licence |',
    '|---|---|---|',
    ...sorted.map(({ name, version, licence }) => `| ${name} | ${version} | ${licence} |`),
  )
}

/**
 * A CycloneDX bill of materials of the published product. `npm sbom --omit dev` leaves out packages that a development dependency uses
 * too, so it is written here. The same lock file gives the same text.
 */
export function billOfMaterials(): object {
  const { name, version, license } = readJson('packages/bellwether/package.json') as Readonly<Record<string, string>>
  const purl = (of: string, at: string) => `pkg:npm/${of.replace('@', '%40')}@${at}`
  const installed = readDependencies().filter(({ dev }) => !dev)
  const components = new Map(
    installed.map((one) => [
      `${one.name}@${one.version}`,
      {
        type: 'library',
        'bom-ref': `${one.name}@${one.version}`,
        name: one.name,
        version: one.version,
        scope: one.optional ? 'optional' : 'required',
        licenses: [/ (?:AND|OR) /.test(one.licence) ? { expression: one.licence } : { license: { id: one.licence } }],
        purl: purl(one.name, one.version),
        hashes: [{ alg: 'SHA-512', content: hexOf(one.integrity) }],
      },
    ]),
  )
  return {
    $schema: 'http://cyclonedx.org/schema/bom-1.5.schema.json',
    bomFormat: 'CycloneDX',
    specVersion: '1.5',
    version: 1,
    metadata: {
      component: {
        type: 'application',
        name,
        version,
        licenses: [{ license: { id: license } }],
        purl: purl(name!, version!),
      },
    },
    components: [...components.values()].toSorted((one, other) => (one.purl < other.purl ? -1 : 1)),
  }
}

const hexOf = (integrity = ''): string => Buffer.from(integrity.replace(/^sha512-/, ''), 'base64').toString('hex')
