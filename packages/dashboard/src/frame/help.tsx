/** Help: the keyboard shortcuts and the meaning of each status. */
import { useQuery } from '@tanstack/react-query'
import { signOut } from '../api/mutations.js'
import { meQuery } from '../api/queries.js'
import { headWords, appearanceOf } from '../model/status.js'
import { oneLine } from '../model/text.js'
import { Dialog } from '../parts/dialog.js'
import { Status } from '../parts/status.js'

const keys: readonly (readonly [string, string])[] = [
  ['g f', 'Fleet'],
  ['g b', 'Board'],
  ['g t', 'Turns'],
  ['g r', 'Trends'],
  ['g e', 'Evals'],
  ['g s', 'Schedules'],
  ['g n', 'Needs you'],
  ['g w', 'Workspace'],
  ['g h', 'Health'],
  ['/', 'search this page'],
  ['j  k', 'down and up in a list'],
  ['Enter, o', 'open the selected row'],
  ['x', 'select the row, or remove it from the selection'],
  ['Shift x', 'select up to the row'],
  ['a', 'act on the selection'],
  ['Esc', 'close, or clear the selection'],
  ['n', 'new: run a turn, or add a task'],
  ['s  r  e  m', 'on a turn: stop, run again, edit and run, write a message'],
  ['e  1–9', 'on a task: change it, or do what the button with this number says'],
  ['p', 'pause or resume the board'],
  ['u', 'undo, while the page offers it'],
  ['?', 'this help'],
]
const words = [...headWords, 'queued', 'stuck', 'needs_you']

export function Help({ close, tour }: { readonly close: () => void; readonly tour: () => void }) {
  const me = useQuery(meQuery).data
  return (
    <Dialog title="Keyboard and statuses" name="Keyboard and statuses" close={close}>
      <dl className="grid grid-cols-[6.5rem_1fr] gap-y-1">
        {keys.map(([key, does]) => (
          <div key={key} className="contents">
            <dt>
              <kbd className="rounded border border-line-strong px-1.5 font-mono text-xs">{key}</kbd>
            </dt>
            <dd>{does}</dd>
          </div>
        ))}
      </dl>
      <h3 className="mt-4 mb-1 font-semibold">Statuses</h3>
      <dl className="grid grid-cols-[7.5rem_1fr] gap-y-1">
        {words.map((word) => (
          <div key={word} className="contents">
            <dt>
              <Status word={word} />
            </dt>
            <dd className="text-ink-2">{appearanceOf(word).means}</dd>
          </div>
        ))}
      </dl>
      <p className="mt-4 flex items-center gap-3 border-t border-line pt-3">
        <span className="min-w-0 flex-1 truncate text-ink-2">
          {me === undefined
            ? ''
            : `Signed in as ${oneLine(me.name ?? me.key_id ?? 'unknown', 60)}, ${oneLine(me.role, 30)}`}
        </span>
        <button type="button" className="button" onClick={tour}>
          Take the tour
        </button>
        <button type="button" className="button" onClick={() => void signOut()}>
          Sign out
        </button>
      </p>
    </Dialog>
  )
}
