/** The help page of `bellwether` and `bellwether --help`: the commands in groups, and three lines for newcomers. */
import { groups } from './commands.js'

export function firstPage(version: string): string {
  const width = Math.max(...groups.flatMap(({ commands }) => Object.keys(commands)).map((name) => name.length))
  const lists = groups.map(({ title, commands }) =>
    [title, ...Object.entries(commands).map(([name, { about }]) => `  ${name.padEnd(width)}  ${about}`)].join('\n'),
  )
  return `bellwether ${version}: runs a fleet of AI agents so that every turn ends.

Usage: bellwether COMMAND [options]

New here?  bellwether demo                      watch a fleet survive real crashes
           bellwether init && bellwether up     run everything in this folder
           bellwether turn run greeter hello    run a turn, from another terminal

${lists.join('\n\n')}

Run bellwether COMMAND --help for its options. --json prints objects for programs. Exit codes: 0 success, 1 failure, 2 wrong usage.
`
}
