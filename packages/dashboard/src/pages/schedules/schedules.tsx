/** Schedules page: every schedule with its next instant and last result; one opens beside the list. */
import { useQuery } from '@tanstack/react-query'
import { Link, useNavigate, useParams, useSearch } from '@tanstack/react-router'
import { useState } from 'react'
import { schedulesQuery } from '../../api/queries.js'
import type { Schedule } from '../../api/types.js'
import { Page } from '../../frame/page.js'
import { resultOf, startsOf, whenOf } from '../../model/schedule.js'
import { oneLine } from '../../model/text.js'
import { Empty, QueryState } from '../../parts/query-state.js'
import { Ago, Countdown } from '../../parts/time.js'
import { ScheduleDrawer } from './schedule-drawer.js'
import { ScheduleForm } from './schedule-form.js'
import { StateChip } from './state-chip.js'

export function SchedulesPage() {
  const { project } = useParams({ from: '/p/$project/schedules' })
  const { schedule } = useSearch({ from: '/p/$project/schedules' })
  const navigate = useNavigate()
  const [isAdding, setAdding] = useState(false)
  const query = useQuery(schedulesQuery(project))
  const add = (
    <button type="button" className="button" onClick={() => setAdding(true)}>
      New schedule…
    </button>
  )
  return (
    <Page title="Schedules" tools={add} scrolls>
      <QueryState
        query={query}
        isEmpty={({ schedules }) => schedules.length === 0}
        empty={
          <Empty title="No schedules yet">
            A schedule starts a turn or a task by the clock. Add one with <em>New schedule…</em>, or write a file{' '}
            <code>schedules/NAME.toml</code>.
          </Empty>
        }
      >
        {({ schedules }) => (
          <ul className="panel m-3 divide-y divide-line" aria-label="Schedules">
            {schedules.map((one) => (
              <Line key={one.schedule} project={project} schedule={one} />
            ))}
          </ul>
        )}
      </QueryState>
      {schedule !== undefined && (
        <ScheduleDrawer
          key={schedule}
          project={project}
          name={schedule}
          close={() => void navigate({ to: '/p/$project/schedules', params: { project }, search: {} })}
        />
      )}
      {isAdding && <ScheduleForm project={project} close={() => setAdding(false)} />}
    </Page>
  )
}

function Line({ project, schedule }: { readonly project: string; readonly schedule: Schedule }) {
  const last = schedule.last_fire
  return (
    <li>
      <Link
        to="/p/$project/schedules"
        params={{ project }}
        search={{ schedule: schedule.schedule }}
        className="grid grid-cols-1 gap-x-4 px-3 py-2 hover:bg-hover md:grid-cols-[14rem_minmax(0,1fr)_12rem]"
      >
        <span className="flex items-center gap-2">
          <bdi className="truncate font-medium">{schedule.schedule}</bdi>
          <StateChip schedule={schedule} />
        </span>
        <span className="min-w-0">
          <span className="block truncate">
            {schedule.definition === null ? (
              'starts nothing until its file is corrected'
            ) : (
              <>
                {oneLine(startsOf(schedule), 120)}, <span className="text-ink-2">{oneLine(whenOf(schedule), 120)}</span>
              </>
            )}
          </span>
          {schedule.problem !== null && (
            <span className="block text-sm text-bad">{oneLine(schedule.problem, 300)}</span>
          )}
          {last !== null && (
            <span className="block truncate text-sm text-ink-2">
              last: {oneLine(resultOf(last), 160)}, <Ago at={last.instant} />
            </span>
          )}
        </span>
        <span className="text-sm text-ink-2 md:text-right">
          {schedule.next_fires.length === 0 ? (
            schedule.paused_at === null ? (
              'no next instant'
            ) : (
              'paused'
            )
          ) : (
            <Countdown until={schedule.next_fires[0]} lead="next in" />
          )}
        </span>
      </Link>
    </li>
  )
}
