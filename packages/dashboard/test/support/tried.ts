/** The pages that are tried, with how to tell that each shows what it has, or has nothing. */
import { turnId } from './strings.js'

export interface Tried {
  readonly path: string
  readonly title: string
  /** Something that only a page with its data shows. */
  readonly shows: string
  /** What it says when there is nothing. */
  readonly empty: string | null
}

export const pages: readonly Tried[] = [
  { path: '/fleet', title: 'Fleet', shows: 'planner-03', empty: 'This project has no agents yet.' },
  { path: '/board', title: 'Board', shows: 'Upgrade the payment library', empty: 'No task yet.' },
  { path: '/turns', title: 'Turns', shows: 'the tests do not pass', empty: 'No turn yet.' },
  { path: `/turns/${turnId(0)}`, title: 'Turns', shows: 'Make the login test pass on CI', empty: null },
  { path: '/needs-you', title: 'Needs you', shows: 'Ship it today?', empty: 'Nothing needs you.' },
  { path: '/workspace', title: 'Workspace', shows: 'report.md', empty: 'No folder is watched.' },
  { path: '/health', title: 'Health', shows: 'inotify: too many watches', empty: 'Nothing had to be saved.' },
]

/** A page's name among the pictures. */
export const nameOf = (path: string): string => path.split('/')[1]! + (path.split('/').length > 2 ? '-one' : '')
