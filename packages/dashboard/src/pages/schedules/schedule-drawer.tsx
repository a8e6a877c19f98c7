/** One schedule beside the list: definition, next instants, history with links, and what a person can do with it. */
import { useInfiniteQuery, useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import { deleteSchedule, pauseSchedule, runSchedule } from '../../api/mutations.js'
import { firesQuery, scheduleQuery } from '../../api/queries.js'
import type { Fire, Schedule } from '../../api/types.js'
import { keysOf, missedWords, overlapWords, policyText, resultOf, startsOf, whenOf } from '../../model/schedule.js'
import { oneLine, plural } from '../../model/text.js'
import { Dialog } from '../../parts/dialog.js'
import { QueryState } from '../../parts/query-state.js'
import { instant } from '../../model/time.js'
import { At } from '../../parts/time.js'
import { ScheduleForm } from './schedule-form.js'
import { StateChip } from './state-chip.js'

interface DrawerProps {
  readonly project: string
  readonly name: string
  readonly close: () => void
}

export function ScheduleDrawer({ project, name, close }: DrawerProps) {
  const query = useQuery(scheduleQuery(project, name))
  return (
    <Dialog title={<bdi>{oneLine(name, 80)}</bdi>} name={`Schedule ${name}`} side close={close}>
      <QueryState query={query} isFramed>
        {(schedule) => (
          <div className="space-y-4">
            <Facts schedule={schedule} />
            <Actions project={project} schedule={schedule} close={close} />
            <h3 className="font-semibold">Next</h3>
            <ul aria-label="Next instants" className="text-sm text-ink-2">
              {schedule.next_fires.length === 0 && <li>none</li>}
              {schedule.next_fires.map((at) => (
                <li key={at}>{instant(at)}</li>
              ))}
            </ul>
            <History project={project} name={name} />
          </div>
        )}
      </QueryState>
    </Dialog>
  )
}

function Facts({ schedule }: { readonly schedule: Schedule }) {
  const keys = keysOf(schedule)
  const text = keys.task === undefined ? keys.instruction : keys.task.instruction
  const rows: readonly (readonly [string, string])[] = [
    ['Starts', startsOf(schedule)],
    ['When', whenOf(schedule)],
    ['If missed', policyText(missedWords, keys.missed, keys.missed_max)],
    ['If one is open', policyText(overlapWords, keys.overlap, keys.queue_max)],
    ['Defined by', schedule.source === 'file' ? `schedules/${schedule.schedule}.toml` : schedule.updated_by],
    ['Open now', plural(schedule.open, keys.task === undefined ? 'turn' : 'task')],
  ]
  return (
    <div>
      <StateChip schedule={schedule} />
      {keys.description !== undefined && <p className="text-ink-2">{oneLine(keys.description, 500)}</p>}
      {schedule.problem !== null && (
        <p role="alert" className="text-sm text-bad">
          {oneLine(schedule.problem, 600)}
        </p>
      )}
      <dl className="mt-1 grid grid-cols-[7.5rem_1fr] gap-y-0.5">
        {rows.map(([name, value]) => (
          <div key={name} className="contents">
            <dt className="text-ink-3">{name}</dt>
            <dd>
              <bdi>{oneLine(value, 200)}</bdi>
            </dd>
          </div>
        ))}
      </dl>
      {text !== undefined && (
        <pre className="mt-2 max-h-40 overflow-auto text-sm whitespace-pre-wrap">{text.slice(0, 4_000)}</pre>
      )}
    </div>
  )
}

function Actions({
  project,
  schedule,
  close,
}: {
  readonly project: string
  readonly schedule: Schedule
  readonly close: () => void
}) {
  const [isEditing, setEditing] = useState(false)
  const [isDeleting, setDeleting] = useState(false)
  const client = useQueryClient()
  const { schedule: name, source, paused_at: paused } = schedule
  const act = useMutation({
    mutationFn: async (verb: 'run' | 'pause' | 'resume' | 'delete') => {
      if (verb === 'run') await runSchedule(project, name)
      else if (verb === 'delete') await deleteSchedule(project, name)
      else await pauseSchedule(project, name, verb === 'pause')
      return verb
    },
    onSuccess: (verb) => {
      if (verb === 'delete') close()
    },
    onSettled: () => client.invalidateQueries({ queryKey: ['schedules', project] }),
  })
  const button = (verb: Parameters<typeof act.mutate>[0], text: string) => (
    <button type="button" className="button" disabled={act.isPending} onClick={() => act.mutate(verb)}>
      {text}
    </button>
  )
  return (
    <div>
      <div className="flex flex-wrap gap-2">
        {schedule.definition !== null && button('run', 'Run now')}
        {paused === null ? button('pause', 'Pause') : button('resume', 'Resume')}
        {source === 'api' && (
          <button type="button" className="button" onClick={() => setEditing(true)}>
            Change…
          </button>
        )}
        {source === 'api' &&
          (isDeleting ? (
            <>
              {button('delete', 'Delete for good')}
              <button type="button" className="button" onClick={() => setDeleting(false)}>
                Keep
              </button>
            </>
          ) : (
            <button type="button" className="button" onClick={() => setDeleting(true)}>
              Delete…
            </button>
          ))}
      </div>
      {source === 'file' && <p className="mt-1 text-sm text-ink-2">Its file defines it: change or delete the file.</p>}
      <p role="alert" className="min-h-5 text-sm text-bad">
        {act.error === null ? '' : oneLine(act.error.message, 300)}
      </p>
      {isEditing && <ScheduleForm project={project} schedule={schedule} close={() => setEditing(false)} />}
    </div>
  )
}

function History({ project, name }: { readonly project: string; readonly name: string }) {
  const query = useInfiniteQuery(firesQuery(project, name))
  return (
    <>
      <h3 className="font-semibold">History</h3>
      <QueryState
        query={query}
        isFramed
        isEmpty={({ pages }) => pages.every((page) => page.fires.length === 0)}
        empty={<p className="text-sm text-ink-2">Nothing was due yet. Run it once with Run now.</p>}
      >
        {({ pages }) => (
          <>
            <ul aria-label="History" className="divide-y divide-line">
              {pages
                .flatMap((page) => page.fires)
                .map((fire) => (
                  <FireLine key={`${fire.kind} ${fire.instant}`} project={project} fire={fire} />
                ))}
            </ul>
            {query.hasNextPage && (
              <button type="button" className="button mt-2" onClick={() => void query.fetchNextPage()}>
                Show more
              </button>
            )}
          </>
        )}
      </QueryState>
    </>
  )
}

function FireLine({ project, fire }: { readonly project: string; readonly fire: Fire }) {
  return (
    <li className="flex flex-wrap gap-x-3 py-1 text-sm">
      <At at={fire.instant} />
      {fire.requested_by !== null && <span className="text-ink-2">started by {oneLine(fire.requested_by, 60)}</span>}
      <span className={fire.status === 'failed' || fire.outcome === 'failed' ? 'text-bad' : ''}>
        {oneLine(resultOf(fire), 300)}
      </span>
      {fire.agent_turn_id !== null && (
        <Link className="link" to="/p/$project/turns/$turn" params={{ project, turn: fire.agent_turn_id }}>
          turn
        </Link>
      )}
      {fire.task_id !== null && (
        <Link className="link" to="/p/$project/board" params={{ project }} search={{ task: fire.task_id }}>
          task {oneLine(fire.task_id, 80)}
        </Link>
      )}
    </li>
  )
}
