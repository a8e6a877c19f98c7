/** What `bellwether` alone and `bellwether --help` say: the commands in groups, and three lines to begin with. */
import { groups } from './commands.js'

export function firstPage(version: string): string {
  const width = Math.max(...groups.flatMap(({ commands }) => Object.keys(commands)).map((name) => name.length))
  const lists = groups.map(({ title, commands }) =>
    [title, ...Object.entries(commands).map(([name, { about }]) => `  ${name.padEnd(width)}  ${about}`)].join('\n'),
  )
  return `bellwether ${version}: runs a fleet of AI agents so that every turn ends.

Usage: bellwether COMMAND [options]

New here?  bellwether demo                      a fleet at work, with real crashes
           bellwether init && bellwether up     a house of your own in this folder
           bellwether turn run greeter hello    in another terminal, in the same folder

${lists.join('\n\n')}

bellwether COMMAND --help says more. With --json they print objects for programs. Exit code 0: done, 1: it failed, 2: it was called wrongly.
`
}
