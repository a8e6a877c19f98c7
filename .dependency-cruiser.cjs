/**
 * The import arrows. `arrows` is the whole rule: each part of the product and what it may import; everything else
 * is refused, also for `import type`. A new part of packages/bellwether/src must be added here before CI lets it in.
 * Run through scripts/arrows.ts, which also proves that every source file was really looked at.
 */
const src = '^packages/bellwether/src/'
const tests = '\\.test\\.tsx?$'

const below = ['base', 'protocol', 'ports', 'settings']
const middle = ['kernel', 'pmo', 'worker', 'board', 'view']

/** part of packages/bellwether/src → the parts it may import (itself always) */
const arrows = {
  settings: ['base', 'protocol'],
  ports: ['base', 'protocol'],
  kernel: below,
  pmo: [...below, 'kernel'],
  worker: [...below, 'kernel'],
  // Checks read fields and schemas as workers do.
  evals: [...below, 'kernel', 'worker'],
  board: below,
  view: below,
  telemetry: [...below, 'kernel'],
  // Clients reach a running server over HTTP only; the MCP server is such a client.
  client: ['base', 'protocol', 'ports'],
  mcp: ['base', 'protocol', 'ports', 'client'],
  http: [...below, ...middle, 'evals', 'telemetry'],
  // The client reads evidence from a view on another host.
  runtime: [...below, ...middle, 'evals', 'telemetry', 'http', 'sensor', 'client'],
  cli: [...below, ...middle, 'http', 'runtime', 'sensor', 'client', 'mcp'],
  library: [...below, ...middle, 'http', 'runtime'],
  index: [...below, 'kernel', 'worker', 'library'],
}

/** A part is a directory or one file: `runtime/…` or `index.ts`. */
const packages = ['base', 'protocol', 'sensor']
const place = (part) =>
  packages.includes(part)
    ? `^packages/${part}/src/((http/)?index|call-text|counts|pipe|request-line|spending|task-input|thread|trends|vocabulary)\\.ts$`
    : `${src}${part}(/|\\.ts$)`

const arrowRules = Object.entries(arrows).map(([part, targets]) => ({
  name: `arrows-of-${part}`,
  comment: `${part} may import: ${targets.join(', ')}`,
  severity: 'error',
  from: { path: place(part), pathNot: tests },
  to: { path: '^packages/', pathNot: [part, ...targets].map(place) },
}))

/** Room of board/ → the rooms of board/ it may import (itself and `ports.ts` always). */
const boardArrows = {
  log: [],
  policies: ['log'],
  tasks: ['log', 'policies'],
  dispatch: ['log', 'policies', 'tasks'],
  repair: ['log', 'policies', 'tasks', 'dispatch'],
}
const boardRoom = (room) => `${src}board/${room}/`

const boardRules = Object.entries(boardArrows).map(([room, targets]) => ({
  name: `arrows-of-board-${room}`,
  comment: `board/${room} may import from board/: ${['ports.ts', ...targets].join(', ')}`,
  severity: 'error',
  from: { path: boardRoom(room), pathNot: tests },
  to: { path: `${src}board/`, pathNot: [`${src}board/ports\\.ts$`, ...[room, ...targets].map(boardRoom)] },
}))

/** Package → the packages it may import. */
const packageArrows = {
  base: [],
  protocol: ['base'],
  sensor: ['base', 'protocol'],
  dashboard: ['base', 'protocol'],
  // The demo is a user of the product: its command line as a child process, and its public client.
  demo: ['base', 'protocol', 'client/index'],
}

const packageRules = Object.entries(packageArrows).map(([name, targets]) => ({
  name: `arrows-of-package-${name}`,
  comment: `${name} may import: ${targets.join(', ') || 'no other package'}`,
  severity: 'error',
  from: { path: `^packages/${name}/` },
  to: { path: '^packages/', pathNot: [`^packages/${name}/`, ...targets.map(place)] },
}))

module.exports = {
  forbidden: [
    ...arrowRules,
    ...boardRules,
    ...packageRules,
    {
      name: 'known-part',
      comment: 'a file under packages/bellwether/src that no arrow speaks of: name its part in .dependency-cruiser.cjs',
      severity: 'error',
      from: { path: src, pathNot: [tests, ...Object.keys(arrows).map(place)] },
      to: {},
    },
    {
      name: 'packages-by-name',
      comment: 'another package is imported by its name (@bellwether/protocol), never by a relative path into it',
      severity: 'error',
      from: { path: '^packages/([^/]+)/' },
      to: { path: '^packages/', pathNot: '^packages/$1/', dependencyTypes: ['local'] },
    },
    {
      name: 'src-alone',
      comment: 'the product never imports its tests, simulation, benchmarks or scripts',
      severity: 'error',
      from: { path: '^packages/[^/]+/src/', pathNot: tests },
      to: { path: ['^packages/[^/]+/(test|sim|bench)/', '^scripts/', tests] },
    },
    {
      name: 'no-cycle',
      comment: 'two modules that import each other cannot be understood, tested or started alone',
      severity: 'error',
      from: {},
      to: { circular: true },
    },
    {
      name: 'resolvable',
      comment:
        'the import leads nowhere: a typing error, a deep path that the package does not export, or a missing dependency',
      severity: 'error',
      from: {},
      to: { couldNotResolve: true },
    },
  ],
  options: {
    parser: 'swc',
    tsPreCompilationDeps: true,
    doNotFollow: { path: 'node_modules' },
    // The cruiser's parser knows no JSX: packages/dashboard/src/imports.test.ts looks after those files.
    exclude: {
      path: ['^packages/dashboard/.*\\.tsx$', '(^|/)dist/', '/\\.mutants/', '^packages/bellwether/bench/\\.?peers/'],
    },
    enhancedResolveOptions: {
      exportsFields: ['exports'],
      conditionNames: ['@bellwether/source', 'import', 'node', 'default', 'types'],
      extensions: ['.ts', '.tsx', '.js', '.mjs', '.cjs', '.json', '.d.ts'],
    },
  },
}
