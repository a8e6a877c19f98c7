/** The tasks whose runs changed files most recently; each leads to its diff. */
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { boardQuery, type Board } from '../../api/queries.js'
import { appearanceOf } from '../../model/status.js'
import { oneLine, plural } from '../../model/text.js'
import { Section } from '../../frame/page.js'
import { Glyph } from '../../parts/glyph.js'
import { toneText } from '../../parts/status.js'
import { Ago } from '../../parts/time.js'

const shownMax = 6

const newest = ({ tasks, isOffered }: Board) => ({
  isOffered,
  tasks: tasks
    .filter(({ changedFiles }) => (changedFiles ?? 0) > 0)
    .toSorted((one, other) => (one.updatedAt < other.updatedAt ? 1 : -1))
    .slice(0, shownMax),
})

export function RecentChanges({ project }: { readonly project: string }) {
  const { data } = useQuery({ ...boardQuery(), select: newest })
  if (data?.isOffered !== true) return null
  return (
    <Section title="Recent changes">
      {data.tasks.length === 0 && <p className="px-3 py-2 text-sm text-ink-3">No task has changed a file yet</p>}
      <ol className="px-3 py-1.5 text-sm empty:hidden">
        {data.tasks.map(({ taskId, title, status, changedFiles, updatedAt }) => {
          const appearance = appearanceOf(status)
          return (
            <li key={taskId} className="flex h-6 items-center gap-2">
              <span className={toneText[appearance.tone]} title={appearance.means}>
                <Glyph shape={appearance.shape} />
              </span>
              <span className="sr-only">{appearance.word}</span>
              <Link
                to="/p/$project/board"
                params={{ project }}
                search={{ task: taskId }}
                className="min-w-0 flex-1 truncate hover:underline"
                title={`${oneLine(title, 200)}: ${plural(changedFiles ?? 0, 'file')}`}
              >
                <bdi>{oneLine(title, 60)}</bdi>
              </Link>
              <span className="w-16 text-xs text-ink-3">
                <Ago at={updatedAt} />
              </span>
            </li>
          )
        })}
      </ol>
    </Section>
  )
}
