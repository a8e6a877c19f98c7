/** The pages under test, each with a text that only its data shows and the text of its empty state. */
import { turnId } from './strings.js'

export interface PageCase {
  readonly path: string
  readonly title: string
  /** A text that only a page with data shows. */
  readonly shows: string
  /** The text of the empty page. */
  readonly empty: string | null
}

export const pages: readonly PageCase[] = [
  { path: '/fleet', title: 'Fleet', shows: 'planner-03', empty: 'This project has no agents yet' },
  { path: '/board', title: 'Board', shows: 'Upgrade the payment library', empty: 'No tasks yet' },
  { path: '/turns', title: 'Turns', shows: 'the tests do not pass', empty: 'No turns yet' },
  { path: `/turns/${turnId(0)}`, title: 'Turns /', shows: 'Make the login test pass on CI', empty: null },
  { path: '/trends', title: 'Trends', shows: 'Turns by outcome', empty: 'No turn has ended in this time' },
  { path: '/evals', title: 'Evals', shows: '120 cases', empty: 'No suites yet' },
  { path: '/evals/eval-run-1', title: 'Evals', shows: '80 of 120', empty: null },
  { path: '/schedules', title: 'Schedules', shows: 'nightly', empty: 'No schedules yet' },
  { path: '/needs-you', title: 'Needs you', shows: 'Ship it today?', empty: 'Nothing needs you' },
  { path: '/workspace', title: 'Workspace', shows: 'report.md', empty: 'No folder is watched' },
  { path: '/health', title: 'Health', shows: 'inotify: too many watches', empty: 'No interventions' },
]

/** The page's name in screenshot files. */
export const nameOf = (path: string): string => path.split('/')[1]! + (path.split('/').length > 2 ? '-one' : '')
