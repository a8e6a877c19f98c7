/** The frame around all pages: navigation, project and keyboard. */
import { Link, Outlet, useLocation, useNavigate, useParams } from '@tanstack/react-router'
import { useEffect, useRef, useState } from 'react'
import { makeKeys } from '../keyboard/shortcuts.js'
import { currentList } from '../keyboard/shortcut-list.js'
import { LiveProvider } from '../live/live.js'
import { clock } from '../ports/clock.js'
import { storage } from '../ports/storage.js'
import { Brand, Icon, type IconName } from '../parts/glyph.js'
import { Toasts } from '../parts/toast.js'
import { Help } from './help.js'
import { useNeeds } from './needs.js'
import { ProjectPicker } from './project-picker.js'
import { ThemeSwitch } from './theme-switch.js'
import { isFirstVisit, Tour } from './tour.js'

const pages = [
  { name: 'fleet', to: '/p/$project/fleet', title: 'Fleet', short: 'Fleet' },
  { name: 'board', to: '/p/$project/board', title: 'Board', short: 'Board' },
  { name: 'turns', to: '/p/$project/turns', title: 'Turns', short: 'Turns' },
  { name: 'trends', to: '/p/$project/trends', title: 'Trends', short: 'Trend' },
  { name: 'evals', to: '/p/$project/evals', title: 'Evals', short: 'Evals' },
  { name: 'schedules', to: '/p/$project/schedules', title: 'Schedules', short: 'Clock' },
  { name: 'needs-you', to: '/p/$project/needs-you', title: 'Needs you', short: 'You' },
  { name: 'workspace', to: '/p/$project/workspace', title: 'Workspace', short: 'Files' },
  { name: 'health', to: '/p/$project/health', title: 'Health', short: 'Health' },
] as const satisfies readonly {
  readonly name: IconName
  readonly to: string
  readonly title: string
  readonly short: string
}[]

export function Shell() {
  const { project } = useParams({ from: '/p/$project' })
  const [isHelping, setHelping] = useState(false)
  const [isTouring, setTouring] = useState(isFirstVisit)
  useKeyboard(project, () => setHelping(true))
  useEffect(() => storage.set('browser', 'project', project), [project])
  useTabTitle(project)
  return (
    // A new project remounts everything, so that nothing of the old one is shown or followed.
    <LiveProvider key={project} project={project}>
      <div className="flex h-dvh flex-col md:flex-row">
        <a href="#main" className="sr-only focus:not-sr-only focus:absolute focus:z-50 focus:bg-panel focus:p-2">
          Skip to content
        </a>
        <aside className="flex shrink-0 items-center gap-2 border-line bg-panel px-3 py-1.5 max-md:border-b md:w-[184px] md:flex-col md:items-stretch md:gap-3 md:border-r md:px-2 md:py-3">
          <p className="hidden items-center gap-2 px-2 font-semibold md:flex">
            <Brand size={18} />
          </p>
          <div className="min-w-0 flex-1 md:flex-none">
            <ProjectPicker project={project} />
          </div>
          <div className="hidden flex-1 md:block">
            <Navigation project={project} />
          </div>
          <div className="flex items-center gap-2 md:justify-between">
            <ThemeSwitch />
            <button
              type="button"
              className="button px-2.5"
              onClick={() => setHelping(true)}
              aria-label="Keyboard and statuses"
              title="Keyboard and statuses (?)"
            >
              ?
            </button>
          </div>
        </aside>
        <Outlet />
        <div className="shrink-0 border-t border-line bg-panel md:hidden">
          <Navigation project={project} isCompact />
        </div>
      </div>
      <Toasts />
      {isTouring && <Tour project={project} close={() => setTouring(false)} />}
      {isHelping && (
        <Help
          close={() => setHelping(false)}
          tour={() => {
            setHelping(false)
            setTouring(true)
          }}
        />
      )}
    </LiveProvider>
  )
}

function Navigation({ project, isCompact = false }: { readonly project: string; readonly isCompact?: boolean }) {
  const needs = useNeeds(project)
  const item = isCompact
    ? 'relative flex flex-col items-center gap-0.5 pt-1.5 pb-1 text-xs tracking-tight whitespace-nowrap text-ink-2 aria-[current=page]:font-semibold aria-[current=page]:text-ink'
    : 'flex items-center gap-2.5 rounded px-2 py-1.5 text-ink-2 hover:bg-hover aria-[current=page]:bg-hover aria-[current=page]:font-semibold aria-[current=page]:text-ink'
  return (
    <nav aria-label="Pages" className={isCompact ? 'grid grid-cols-9' : 'flex flex-col gap-0.5'}>
      {pages.map(({ name, to, title, short }) => (
        <Link
          key={name}
          to={to}
          params={{ project }}
          search={{}}
          className={item}
          activeOptions={{ includeSearch: false }}
        >
          <Icon name={name} size={isCompact ? 18 : 16} />
          <span className={isCompact ? '' : 'flex-1'}>{isCompact ? short : title}</span>
          {name === 'needs-you' && <NeedsCount count={needs ?? 0} isCompact={isCompact} />}
        </Link>
      ))}
    </nav>
  )
}

/** Reserves its space also when empty. */
function NeedsCount({ count, isCompact }: { readonly count: number; readonly isCompact: boolean }) {
  const place = isCompact ? 'absolute top-0 left-1/2 ml-2' : ''
  const isShown = count > 0
  return (
    // A new element per count: centred digits that move when one is added would count as a layout shift.
    <span
      key={count}
      className={`min-w-5 rounded-full px-1 text-center text-xs leading-5 font-semibold ${place} ${isShown ? 'bg-person-soft text-person' : 'invisible'}`}
    >
      {count > 99 ? '99+' : count}
      <span className="sr-only"> waiting</span>
    </span>
  )
}

/** The tab title shows how many items wait for a person, and the page. */
function useTabTitle(project: string): void {
  const needs = useNeeds(project) ?? 0
  const name = useLocation({ select: ({ pathname }) => pathname.split('/')[3] })
  const page = pages.find((one) => one.name === name)
  useEffect(() => {
    const count = needs > 0 ? `(${needs}) ` : ''
    document.title = `${count}${page === undefined ? '' : `${page.title} – `}Bellwether`
  }, [needs, page])
}

const fieldTags = new Set(['INPUT', 'TEXTAREA', 'SELECT'])

/** A checkbox takes no text: the keys work while it has the focus. */
const takesText = (target: HTMLElement) =>
  target.isContentEditable ||
  (fieldTags.has(target.tagName) && !(target instanceof HTMLInputElement && target.type === 'checkbox'))

/** The visible control with a key. */
const controlWith = (key: string, within: ParentNode): HTMLElement | undefined =>
  [...within.querySelectorAll<HTMLElement>(`[aria-keyshortcuts="${key}"]:not(:disabled)`)].find((one) =>
    one.checkVisibility(),
  )

function useKeyboard(project: string, help: () => void): void {
  const navigate = useNavigate()
  const latest = useRef({ project, help })
  latest.current = { project, help }
  useEffect(() => {
    const read = makeKeys()
    const listen = (event: KeyboardEvent) => {
      const target = event.target instanceof HTMLElement ? event.target : null
      const press = read({
        key: event.key,
        withModifier: event.ctrlKey || event.metaKey || event.altKey,
        inField: target !== null && takesText(target),
        atMs: clock.nowMs(),
      })
      const dialog = [...document.querySelectorAll('dialog[open]')].at(-1)
      // An open dialog receives all keys; its controls may have some.
      if (press.what === 'nothing' || (dialog !== undefined && press.what !== 'control')) return
      if (press.what === 'control') {
        const control = controlWith(press.key, dialog ?? document)
        if (control === undefined) return
        if (takesText(control)) control.focus()
        else control.click()
        event.preventDefault()
        return
      }
      if (press.what === 'go') {
        const page = pages.find(({ name }) => name === press.to)
        if (page !== undefined) void navigate({ to: page.to, params: { project: latest.current.project }, search: {} })
      } else if (press.what === 'help') latest.current.help()
      else if (press.what === 'search') document.querySelector<HTMLInputElement>('[data-search]')?.focus()
      else if (press.what === 'open') currentList()?.open()
      else if (press.what === 'clear') return currentList()?.clear()
      else if (press.what === 'select' || press.what === 'range') currentList()?.select(press.what === 'range')
      else currentList()?.move(press.what === 'next' ? 1 : -1)
      event.preventDefault()
    }
    window.addEventListener('keydown', listen)
    return () => window.removeEventListener('keydown', listen)
  }, [navigate])
}
